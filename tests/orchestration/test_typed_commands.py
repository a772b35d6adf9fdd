"""Tests that run every command that CARE prints, with its blanks filled in, each in a new folder.

Commands run in this process with typer's runner, in copies of one folder: a workspace with three fits, the last of them
blocked, and the tables of the documentation.
"""

import json
import random
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from assets.report.verdicts import remedies
from assets.table.label_file import COLUMNS
from orchestration.cli.app import app
from orchestration.cli.rate import NOT_ENOUGH
from orchestration.workspace import load_workspace
from tests.orchestration.test_documentation import blocks
from tests.orchestration.test_printed_commands import by_command, what_is_wrong
from tests.orchestration.test_readme import STANDS_FOR, environment
from tests.orchestration.test_readme import commands as commands_of_readme
from tests.support.terminals import Terminal
from tests.support.workspaces import (
    JUDGES,
    add_column,
    care,
    care_json,
    make,
    run,
    typed,
    write_judge,
    write_table,
    write_testset,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet_again")]

LOGS = Path(__file__).parents[1] / "warehouse" / "imported" / "inspect_ai" / "grades.eval"
CARE = "fit: {resamples: 0, aggregators: [care, avg]}\nlabels: {one: people.csv}\ncanary: {items: 2}\nreview: "
OPEN, STRICT = "{hold: false}\n", "{max_psi: 0.0, min_rank_correlation: 1.0}\n"


NOT_TYPED = {
    "care --install-completion": "changes the shell of whoever runs the tests",
    "care admin daemon": "stays; started and stopped by tests/orchestration/test_readme.py",
    "care ui": "stays; started and stopped by tests/orchestration/test_readme.py",
    "care rate scores.csv --labels labels.csv --items items.csv --system model --pass-k 3": (
        "takes runs of a system; tests/orchestration/test_quickstart.py types it"
    ),
    "care judges new": "named in a sentence, without a name and an engine",
    "care testsets add --released CLONE": "takes a clone; tests/warehouse/test_released.py makes one",
    "care testsets add --released CARE --workspace mine": "takes a clone; tests/warehouse/test_released.py makes one",
    "care label": "named in a sentence, without what is to be labelled",
    "care label --export FILE": "an option that is named in a sentence, without what is to be labelled",
    "care label --repeat 10": "an option that is named in a sentence, without what is to be labelled",
    "care run --workspace mine --select group:experiments --full": "takes hours",
    "care status --exit-code": "exits with 3, since a fit waits for review; test_alert_causes.py types it",
}
"""Commands that are not run here, with the reasons."""

VALUES = {
    "TESTSET": "one",
    "T": "one",
    "ITEM": "i3",
    "NAME": "length",
    "FILE": "../kept.tar",
    "FOLDER": ".",
    "mine": ".",
    "restored": ".",
}
"""Value for each placeholder, in a copy of ``prepared``, which knows FIT_VERSION."""

PAIRS = "--items items.jsonl --system model_a --system model_b --labels"
REPORT = "care judges report"
INSTEAD = {
    "care admin restore FILLED_IN FILLED_IN --check": "care admin restore ../kept.tar --check",
    "care admin restore care-2026-11-22.tar restored": "care admin restore ../kept.tar restored",
    "care fits accept FILLED_IN": "care fits accept one",
    "care fits accept FILLED_IN FILLED_IN": "care fits accept one --workspace .",
    "care fits diff FILLED_IN": "care fits diff one",
    "care fits diff FILLED_IN FILLED_IN": "care fits diff one --workspace .",
    f"care gate scores.jsonl new --against old {PAIRS} labels.csv": (
        f"care gate scores.jsonl new --against old {PAIRS} of_pairs.csv"
    ),
    "care fits list FILLED_IN": "care fits list one",
    "care import KIND PATH --out FILE": "care import inspect_ai logs/ --out imported.parquet",
    "care init FILLED_IN": "care init new",
    "care init mine --template empty": "care init new --template empty",
    "care judges new --panel NAME": "care judges new --panel programs",
    "care judges new NAME --program PROGRAM": "care judges new another --program readability",
    f"{REPORT} FILLED_IN --workspace .FILLED_IN --cut VALUE": f"{REPORT} one --workspace . --labels people.csv --cut 5",
    "care judges retest NAME": "care judges retest own",
    "care judges test FILLED_IN": "care judges test thoroughness",
    "care label FILLED_IN FILLED_IN": "care label one --workspace .",
    f"care rate scores.jsonl {PAIRS} labels.csv": f"care rate scores.jsonl {PAIRS} of_pairs.csv",
    "care report --open FILLED_IN": "care report --open --workspace .",
    "care testsets add NAME": "care testsets add asset",
    "care testsets add --from FILLED_IN --workspace FILLED_IN": "care testsets add --from scores.csv --workspace .",
    "care run --select key:ASSET": "care run --select key:quality_factor",
    "care run --select key:NAME": "care run --select key:report",
    "care run --workspace FILLED_IN": "care run --workspace .",
    "care run FILLED_IN": "care run --workspace .",
}
"""Commands whose placeholder needs another value."""


def write_tables(folder: Path) -> None:
    """Write the files of the documentation: for 80 answers of two systems, and for 80 pairs."""
    rng = random.Random(3)
    ids, judges = [f"q{k}" for k in range(80)], ("ann", "bob", "cat", "dan", "eve")
    quality = {i: rng.gauss(0, 1) + k % 2 for k, i in enumerate(ids)}
    scores = {(i, j): round(5 + quality[i] + rng.gauss(0, 0.8), 2) for i in ids for j in judges}
    texts = [(i, f"What is {i}?", f"It is {i}. It is old.", ("old", "new")[k % 2]) for k, i in enumerate(ids)]
    columns, fields = ("item_id", "judge", "score"), ("item_id", "prompt", "response", "model")
    write_table(folder / "scores.csv", columns, [(*key, score) for key, score in scores.items()])
    write_table(folder / "items.csv", (*fields, "gold"), [(*row, round(quality[row[0]], 2)) for row in texts])
    write_table(folder / "answers.csv", fields, texts)
    write_table(folder / "judges.csv", ("judge", "family"), [(j, j[0] < "d") for j in judges])
    write_table(folder / "new.csv", columns, [(f"n{k}", j, k % 7) for k in range(5) for j in (*JUDGES, "own")])
    for table in ("scores", "items"):
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(folder / f"{table}.csv"), folder / f"{table}.parquet")
    pairs = {f"p{k}": rng.gauss(0.7, 1) for k in range(80)}
    sides = [("new", "old") if k % 2 else ("old", "new") for k in range(80)]
    lines = [
        {"item_id": i, "prompt": i, "response_a": "this", "response_b": "that", "model_a": a, "model_b": b}
        for i, (a, b) in zip(pairs, sides, strict=True)
    ]
    (folder / "items.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    won = {i: better * (1 if side[0] == "new" else -1) for (i, better), side in zip(pairs.items(), sides, strict=True)}
    votes = [{"item_id": i, "judge": j, "score": int(won[i] + rng.gauss(0, 0.5) > 0)} for i in pairs for j in judges]
    (folder / "scores.jsonl").write_text("".join(f"{json.dumps(vote)}\n" for vote in votes))
    good, first = {i: int(quality[i] > 0.5) for i in ids[:40]}, {i: int(won[i] > 0) for i in list(pairs)[:40]}
    toy = {f"i{k}": int(k % 6 != 3) for k in range(24)}
    for name, labels in (("labels", good), ("of_pairs", first), ("people", toy)):
        rows = [(i, y, "random", "", "ann", "2026-11-20T10:00:00+00:00") for i, y in labels.items()]
        write_table(folder / f"{name}.csv", COLUMNS, rows)


def prepare(folder: Path) -> None:
    """Create the workspace, its three fits, and the tables beside it."""
    make(folder, judges=JUDGES, care=CARE + OPEN)
    write_tables(folder)
    add_column(folder / "one.csv", "model", ("new", "old"))
    write_testset(folder, rest="scale: [0, 10]\nsystems: [model]\n")
    (folder / "own.py").write_text("def program_judge(query, response):\n    return len(response) % 9\n")
    (folder / "judges" / "own.yaml").write_text("engine: {kind: program, file: own.py, unsafe: true}\n")
    assert not run(folder).failures
    (folder / "care.yaml").write_text(CARE.replace("resamples: 0", "resamples: 0, gamma: 0.4") + OPEN)
    assert not run(folder).failures
    (folder / "care.yaml").write_text(CARE.replace("resamples: 0", "resamples: 0, gamma: 0.4") + STRICT)
    write_judge(folder, "readability")
    assert not run(folder).failures
    care(folder, "admin", "backup", str(folder.parent / "kept.tar"))
    (folder / "logs").mkdir()
    shutil.copy(LOGS, folder / "logs")


@pytest.fixture
def prepared(made_once) -> Path:
    return made_once("typed", lambda folder: prepare(folder / "ws")) / "ws"


def to_type(fit_version: str) -> dict[str, str]:
    """Return each printed command, filled in, that the tests of README and of the first panel do not run."""
    values = {**VALUES, "FIT_VERSION": fit_version}
    elsewhere = {*commands_of_readme(), *"".join(blocks("index.md", "sh")).splitlines()}
    commands: dict[str, str] = {}
    for command in by_command():
        as_in_readme = re.sub(r"\b[A-Z]{4,}\b", lambda word: STANDS_FOR.get(word[0], word[0]), command)
        if what_is_wrong(command) or command in NOT_TYPED or as_in_readme in elsewhere:
            continue
        words = [values.get(word, word) for word in shlex.split(command)]
        commands[command] = INSTEAD.get(command) or shlex.join(words)
    return commands


def test_every_printed_command_works(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    monkeypatch.setattr("orchestration.cli.label.refuse_without_terminal", lambda *_: None)
    monkeypatch.setattr("click.getchar", lambda: "q")
    versions = care_json(prepared, "fits", "list", "one")
    assert [row["state"] for row in versions] == ["held back", "published", "was published"]
    commands = to_type(versions[-1]["fit_version"])
    went_wrong: dict[str, str] = {}
    for number, line in enumerate(sorted(set(commands.values()))):
        folder = shutil.copytree(prepared, tmp_path / str(number), symlinks=True)
        monkeypatch.chdir(folder)
        done = CliRunner().invoke(app, shlex.split(line)[1:], input="q\n")
        undecided = line.startswith("care gate ") and done.exit_code == NOT_ENOUGH
        if (done.exit_code and not undecided) or not done.output:
            went_wrong[line] = f"{done.exit_code}: {done.output} {done.exception!r}"
        shutil.rmtree(folder)
    assert not went_wrong, "\n\n".join(f"{line}\n{printed}" for line, printed in went_wrong.items())
    assert len(commands) > 50
    assert {*NOT_TYPED, *INSTEAD} <= set(by_command()), "none is stale"
    assert set(INSTEAD) <= set(commands), "none is stale"
    assert not [line for line in commands.values() if re.search(r"\b[A-Z]{4,}\b|FILLED_IN", line)], "all are filled in"


def test_the_commands_of_a_verdict_work_in_order(workspace_after_run, monkeypatch):
    """They work in each state of the test set, from another folder, and with a space in the folder's name."""
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    folder = workspace_after_run.rename(workspace_after_run.with_name("a workspace"))

    advised = remedies(load_workspace(folder), "one")
    for step in (advised.again, advised.use):
        typed(*shlex.split(str(step.command))[1:])
    command = ["bash", "-c", str(advised.label.command)]
    terminal = Terminal(command, "> ", cwd=folder.parent, env=environment())
    terminal.until_asked()
    for key in "7u8q":
        terminal.type(key)
    assert terminal.end() == 0, terminal.seen
    assert "Traceback" not in terminal.seen
    assert [row.split(",")[1] for row in (folder / "labels" / "one.csv").read_text().split()[1:3]] == ["8", ""]
    setting = "to fit with these labels: set `labels: {one: labels/one.csv}` in care.yaml, then: care run --workspace "
    assert setting in terminal.seen
    used = replace(load_workspace(folder), labels={"one": "labels/one.csv"})
    more = remedies(used, "one").label
    assert more.command == advised.label.command
    assert more.sentence.startswith("Label about twenty more items: run this command, or fill in ")
    to_label = replace(used, labels={"one": "data/report/to_label-one.csv"})
    filled_in = remedies(to_label, "one").label
    sentence = f"Label about twenty more items: fill in {folder}/data/report/to_label-one.csv. Then run again."
    assert (filled_in.sentence, filled_in.command) == (sentence, advised.again.command)
    (folder / "judges" / f"{JUDGES[0]}.yaml").unlink()
    run(folder)  # whose fit waits for a person, or is published: both are two fits to compare
    named, _ = re.findall(r"`(care [^`]*)`", advised.decide.sentence)
    for command in (named, str(advised.decide.command)):
        typed(*shlex.split(command)[1:])
