"""Small workspaces, and commands and queries on a workspace."""

from __future__ import annotations

import csv
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
from typer.testing import CliRunner

from judges.panels import find, judge_files
from orchestration.cli.app import app
from orchestration.instance import workspace_instance
from orchestration.locks import exclusive_lock
from orchestration.runner import Outcome, run_stale
from orchestration.template import template
from orchestration.workspace import load_workspace
from warehouse.database import Warehouse

JUDGES = ("length", "question_coverage", "conciseness", "redundancy", "thoroughness")


def write_items(folder: Path, n: int = 40, edited: int | None = None, name: str = "one") -> None:
    """Write a CSV file of answers of different length; item ``edited`` gets another text."""
    rows = ["item_id,question,answer,label"]
    for k in range(n):
        draw = zlib.crc32(str(k).encode())
        facts = ["the capital is old", "and large", "Rome", "what else is there", "it lies by the sea"]
        answer = " ".join(facts[(draw >> 3 * j) % 5] for j in range(draw % 7 + 1))
        if k == edited:
            answer += " and edited"
        rows.append(f"i{k},What is the capital?,{answer},{k % 5}")
    (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")


def write_judge(folder: Path, name: str, **more: object) -> None:
    lines = [f"engine: {{kind: program, program: {name}}}", *(f"{k}: {v}" for k, v in more.items())]
    (folder / "judges" / f"{name}.yaml").write_text("\n".join(lines) + "\n")


def write_api_judge(folder: Path, url: str, name: str = "api", judge: str = "", **engine: object) -> None:
    """Write a judge that asks an endpoint; ``judge`` has further lines of its file."""
    settings = {"kind": "openai", "base_url": f"'{url}'", "model": "judge-1", "template": "quality", **engine}
    words = (f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items())
    (folder / "judges" / f"{name}.yaml").write_text(f"engine: {{{', '.join(words)}}}\n{judge}")


def write_distinct_items(folder: Path, n: int) -> None:
    """Write items whose texts differ in words and in length."""
    rows = ((f"i{k}", "What is the capital?", f"{'and large ' * (k % 7)}It is {k}.", k % 5) for k in range(n))
    write_table(folder / "one.csv", ("item_id", "question", "answer", "label"), rows)


def write_testset(folder: Path, name: str = "one", source: str = "", rest: str = "scale: [0, 10]\n") -> None:
    """Write the file of a test set; ``source`` has further lines of its source, without their indent."""
    (folder / "testsets" / f"{name}.yaml").write_text(
        f"source:\n  kind: files\n  items: {name}.csv\n"
        f"  columns: {{prompt: question, response: answer, gold: label}}\n{indent(source, '  ')}{rest}"
    )


def add_column(path: Path, name: str, values: Sequence[object]) -> None:
    """Add a column to a CSV file, whose rows get the values in turn."""
    header, *lines = path.read_text().splitlines()
    rows = [f"{line},{values[k % len(values)]}" for k, line in enumerate(lines)]
    path.write_text("\n".join([f"{header},{name}", *rows]) + "\n")


QUICK = "fit: {resamples: 0}\nreview: {hold: false}\n"
"""Content of care.yaml without resamples and review, which most tests do not need."""


def make(folder: Path, judges: tuple[str, ...] = JUDGES, n: int = 40, care: str = QUICK, **more: object) -> Path:
    """Create a workspace with one test set, program judges and the given care.yaml."""
    for sub in ("judges", "testsets"):
        (folder / sub).mkdir(parents=True)
    (folder / "care.yaml").write_text(care)
    write_items(folder, n)
    write_testset(folder)
    for judge in judges:
        write_judge(folder, judge, **more)
    return folder


TWELVE = """\
source: {kind: demo}
scale: [0, 10]
"""


def make_programs(folder: Path, care: str | None = None, testset: str = TWELVE) -> Path:
    """Create a workspace with the test set ``demo``, which twelve built-in programs score."""
    for sub in ("judges", "testsets"):
        (folder / sub).mkdir(parents=True)
    for name, text in judge_files(find("demo")).items():
        (folder / "judges" / f"{name}.yaml").write_text(text)
    (folder / "testsets" / "demo.yaml").write_text(testset)
    (folder / "care.yaml").write_text(template() if care is None else care)
    return folder


def begins_with(folder: Path, code: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with which every Python process first runs ``code``, stored in a folder.

    Dagster's processes that watch a `tail` skip the code, because its imports may take seconds.
    """
    folder.mkdir(exist_ok=True)
    (folder / "runs_first.py").write_text(code)
    (folder / "sitecustomize.py").write_text(
        "import sys\n\n"
        "if not any(word.endswith('watch_orphans.py') for word in sys.orig_argv):\n"
        "    import runs_first  # noqa: F401\n"
    )
    return {**environment, "PYTHONPATH": os.pathsep.join([str(folder), environment.get("PYTHONPATH", "")])}


def run(folder: Path, **narrow: str) -> Outcome:
    """Run ``care run`` in this process."""
    workspace = load_workspace(folder)
    with exclusive_lock(workspace, "care run"), workspace_instance(workspace) as instance:
        return run_stale(workspace, instance, **narrow)  # type: ignore[arg-type]


def typed(*words: object, code: int = 0) -> str:
    """Type a command on a wide terminal, check its exit code, and return its output.

    A command that refuses its input (exit code 2) must write nothing to standard output.
    """
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == code, result.output
    assert code != 2 or not result.stdout
    return result.output


def typed_line(*words: object, code: int = 0) -> str:
    """Type a command, check its exit code, and return its output on one line."""
    return " ".join(typed(*words, code=code).replace("│", "").split())


def typed_json(*words: object, code: int = 0) -> Any:
    """Type a command with ``--json``, check its exit code, and return the JSON that it prints."""
    result = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def write_table(
    path: Path, header: Iterable[object], rows: Iterable[Iterable[object]], encoding: str = "utf-8"
) -> Path:
    """Write a CSV file, and return its path."""
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file).writerows([header, *rows])
    return path


def read_table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, with or without a byte order mark."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def doctor_rows(folder: Path, *options: str) -> list[dict[str, str]]:
    """Return the rows of ``care doctor``, whatever its exit code."""
    words = ["doctor", "--workspace", str(folder), "--json", *options]
    return json.loads(CliRunner().invoke(app, words, catch_exceptions=False).stdout)


def care(folder: Path, *words: str, code: int = 0) -> str:
    """Run a command, check its exit code, and return its output."""
    result = CliRunner().invoke(app, [*words, "--workspace", str(folder)])
    assert result.exit_code == code, result.output
    return result.output


def care_json(folder: Path, *words: str) -> Any:
    """Return the JSON that a command prints."""
    return typed_json(*words, "--workspace", folder)


def summed_by(folder: Path) -> list[object]:
    """Return where the moments were computed, from the asset's metadata."""
    with workspace_instance(load_workspace(folder)) as instance:
        records = instance.fetch_materializations(dg.AssetKey("moments"), limit=10).records
    events = [record.asset_materialization for record in records]
    return [event.metadata["ran_on"].value for event in events if event is not None]


def ran(outcome: Outcome, asset: str) -> list[str | None]:
    """Return the materialised partitions of an asset, sorted."""
    return sorted(str(p) for a, p in outcome.materialised if a == asset)


def score_rows(folder: Path) -> list[tuple[str, str, str]]:
    """Return (judge folder, item_key, judge_key) of every row in every score part."""
    rows: list[tuple[str, str, str]] = []
    for path in sorted((folder / "data" / "parts" / "scores").rglob("*.parquet")):
        table = pq.ParquetFile(path).read(columns=["item_key", "judge_key"])
        where = str(path.parent.relative_to(folder))
        rows += [(where, r["item_key"], r["judge_key"]) for r in table.to_pylist()]
    return rows


def statuses(folder: Path, judge: str = "api") -> Counter[str]:
    """Count the items of the test set ``one`` by the newest status that a judge gave them."""
    table = load_workspace(folder).parts.read_scores(judge, "one", ("item_id", "status", "created_at")).to_pylist()
    newest = {row["item_id"]: row["status"] for row in sorted(table, key=lambda row: row["created_at"])}
    return Counter(newest.values())


def query(folder: Path, sql: str) -> list[tuple]:
    with Warehouse(folder / "data" / "care.duckdb").reader() as connection:
        return connection.execute(sql).fetchall()
