"""Fuzz targets: functions that pass a corrupted, randomly drawn input to a part of CARE.

A target must end without an error or with a one-line error of CARE; any other result is a finding. ``hostile.py``
corrupts inputs, and ``benchmarks/soaks/fuzz.py`` runs the cases.
"""

from __future__ import annotations

import io
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import yaml

from care_ops.errors import CareError
from tests.support import hostile
from tests.support.fuzz_targets_of_judges import answer, batch, endpoint, program, template
from tests.support.hostile import FindingError
from tests.support.wild_files import LONG, WIDE, workbook

IMPORTED = Path(__file__).parents[1] / "warehouse" / "imported"
MOST_CHARACTERS = 400


def _table() -> pa.Table:
    rows = [{"item_id": f"i{k}", "judge": "abc"[k % 3], "score": k % 5 + 0.5, "label": k % 2} for k in range(9)]
    return pa.Table.from_pylist(rows)


def _ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _rich(rng: random.Random) -> pa.Table:
    """Draw a table whose columns have rare types."""
    table = _table()
    kinds = {
        "dictionary": pa.array(["x", "y", None] * 3).dictionary_encode(),
        "list": pa.array([[1, 2], None, []] * 3),
        "struct": pa.array([{"a": 1}] * 9),
        "when": pa.array([0, 10**18, None] * 3, pa.timestamp("us", tz=rng.choice(["UTC", "Nowhere/Land", "+99:99"]))),
        "day": pa.array([0, 2**31 - 1, -(2**31)] * 3, pa.date32()),
        "bytes": pa.array([b"\xff", b"a", None] * 3),
        "big": pa.array([2**64 - 1] * 9, pa.uint64()),
        "span": pa.array([2**62] * 9, pa.duration("s")),
        "view": pa.array(["a"] * 9, pa.string_view()),
        "null": pa.nulls(9),
    }
    for name in rng.sample(sorted(kinds), rng.randint(1, 3)):
        table = table.append_column(rng.choice([name, "item", "judge_2", "a", "drawn", "rater"]), kinds[name])
    if rng.random() < 0.5:
        column = rng.choice(table.column_names[:3])
        table = table.set_column(table.column_names.index(column), column, kinds[rng.choice(sorted(kinds))])
    return table


def _cells(rng: random.Random) -> str:
    lines = [
        line.split(",")
        for line in rng.choice([WIDE, LONG, "item_id,label,drawn,rater\ni1,1,random,x\ni2,0,,\n"]).splitlines()
    ]
    for _ in range(rng.randint(1, 4)):
        line = rng.choice(lines)
        line[rng.randrange(len(line))] = rng.choice(hostile.TEXTS)
    return "\n".join(",".join(line) for line in lines) + "\n"


def _file(rng: random.Random) -> tuple[str, bytes]:
    """Draw a corrupted file of any kind."""
    kind = rng.choice(["csv", "tsv", "csv.gz", "json", "jsonl", *["parquet"] * 4, "xlsx", "sql", "csv.zst"])
    table = _rich(rng) if rng.random() < 0.5 else _table()
    records = _table().to_pylist()
    if kind in ("csv", "tsv"):
        content = _cells(rng).encode(rng.choice(["utf-8", "utf-8", "utf-16"]), "surrogatepass")
        return kind, content if rng.random() < 0.6 else hostile.bytes_of(content, rng)
    if kind in ("csv.gz", "csv.zst"):
        packed = pa.compress(
            _cells(rng).encode("utf-8", "replace"), "gzip" if kind[-1] == "z" else "zstd", asbytes=True
        )
        return kind, hostile.bytes_of(packed, rng)
    if kind == "json":
        content = hostile.as_json(hostile.spoilt(records, rng), rng)
        return kind, content if rng.random() < 0.8 else hostile.bytes_of(content, rng)
    if kind == "jsonl" and rng.random() < 0.1:
        return kind, b"".join(b'{"item_id": "i%d", "k%d": 1}\n' % (k, k) for k in range(rng.choice([600, 6000])))
    if kind == "jsonl":
        return kind, b"\n".join(hostile.as_json(hostile.spoilt(record, rng), rng) for record in records)
    if kind == "xlsx":
        rows = [list(records[0]), *(list(record.values()) for record in records)]
        return kind, hostile.archive_of(workbook({"scores": rows}), rng)
    if kind == "sql":
        return kind, hostile.text("SELECT 'i' || k AS item_id, k AS a, k AS b FROM range(9) t(k)", rng).encode(
            "utf-8", "replace"
        )
    if kind == "parquet" and rng.random() < 0.1:
        table = pa.table({"item_id": ["x"], "a": [1]}).take(pa.nulls(10**7, pa.int8()).fill_null(0))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=rng.choice(["none", "zstd", "snappy"]))
    return kind, hostile.bytes_of(sink.getvalue(), rng) if rng.random() < 0.7 else sink.getvalue()


def _read(source: object, rng: random.Random) -> None:
    from assets.labels import read_labels
    from assets.table.reading import reading_options
    from warehouse.sources import files

    separator = rng.choice([None, None, None, "é", "\n", '"', ",", "\0", "ab"])
    decimal = rng.choice([None, None, ",", "x"])
    encoding = rng.choice([None, None, None, "latin-1", "utf-16", "rot13", "idna", "nope", "utf-7", "hex", "punycode"])
    options = reading_options(separator, encoding, decimal, rng.choice([None, None, "nope"]))
    rng.choice(
        [
            lambda: files.read_scores(source, options=options),
            lambda: files.read_items(source, options=options),
            lambda: read_labels(source, options=options),
            lambda: files.read_families(source, options=options),
        ]
    )()


def file(rng: random.Random, folder: Path) -> None:
    kind, content = _file(rng)
    path = folder / f"scores.{kind}"
    path.write_bytes(content)
    _read(path, rng)


_REFERENCES = ("{}", "file:{}", "file://{}", "file://localhost{}", "~{}", "./{}", "../{}", "{}*", "{}/../{}", "s3:/{}")
_READERS = (
    *("'{}'", "read_text('{}')", "read_blob('{}')", "read_csv('{}')", "read_csv(['a.csv', '{}'])"),
    "query('FROM read_text(''{}'')')",
)
_OUTSIDE = ("OUT/secret.csv", "outside/secret.csv", "secret.csv", "link.csv", "linked/secret.csv", "/proc/self/environ")


def query(rng: random.Random, folder: Path) -> None:
    """Draw a query that tries to read a file outside its folder, under one of the file's names."""
    from warehouse.sources.tables import read_input_table

    outside, home = folder / "outside", folder / "home"
    outside.mkdir()
    home.mkdir()
    (outside / "secret.csv").write_text("item_id,a\nPLANTED,1\n")
    (home / "a.csv").write_text("item_id,a\nx,1\n")
    (home / "link.csv").symlink_to(outside / "secret.csv")
    (home / "linked").symlink_to(outside)
    name = rng.choice(_OUTSIDE).replace("OUT", str(outside))
    spelt = rng.choice(_REFERENCES).replace("{}", name)
    spelt = spelt if rng.random() < 0.9 else hostile.text(spelt, rng)
    reading = rng.choice(_READERS).replace("{}", spelt.replace("'", "''"))
    path = home / "q.sql"
    path.write_bytes(f"SELECT * FROM {reading}".encode("utf-8", "replace"))
    if any(planted in str(read_input_table(path).table.to_pylist()) for planted in ("PLANTED", "PATH=")):
        raise FindingError(f"a query reads {reading.replace(str(folder), '')}")


def frame(rng: random.Random, folder: Path) -> None:
    """Draw an Arrow table with contradictory buffers, which another library might pass."""
    try:
        table = pa.ipc.open_file(hostile.bytes_of(_ipc(_rich(rng)), rng)).read_all()
    except (pa.ArrowException, OSError, ValueError, KeyError, UnicodeError):
        table = _rich(rng)
    _read(table, rng)


def importer(rng: random.Random, folder: Path) -> None:
    from tests.warehouse.test_importers import MADE_BY_TOOLS, PANELS, write_langfuse, write_released
    from warehouse.importers.registry import read_import

    kind = rng.choice([*MADE_BY_TOOLS, "langfuse", "care_release"])
    home = folder / "imported"
    if kind == "langfuse":
        source = write_langfuse(home, PANELS["votes"])
    elif kind == "care_release":
        source = write_released(home / "gpt", PANELS["votes"])
    else:
        sound = IMPORTED / MADE_BY_TOOLS[kind].format(panel=rng.choice(["votes", "grades"]))
        if kind == "inspect_ai" and rng.random() < 0.5:
            sound = IMPORTED / "inspect_ai" / "graded.json"
        source = home / sound.name
        if sound.is_dir():
            shutil.copytree(sound, source)
        else:
            home.mkdir()
            shutil.copy(sound, source)
    victim = rng.choice([source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file()))
    victim.write_bytes(_spoilt_log(victim.read_bytes(), victim.suffix, rng))
    imported = read_import(kind, source)
    imported.recorded()
    imported.score_table()
    imported.item_table()
    imported.sentences()


def _spoilt_log(content: bytes, suffix: str, rng: random.Random) -> bytes:
    if suffix == ".eval":
        return hostile.archive_of(content, rng)
    if rng.random() < 0.15 or suffix == ".csv":
        return hostile.bytes_of(content, rng)
    if suffix == ".jsonl":
        lines = content.splitlines()
        place = rng.randrange(len(lines))
        lines[place] = hostile.as_json(hostile.spoilt(json.loads(lines[place]), rng), rng)
        return b"\n".join(lines)
    return hostile.as_json(hostile.spoilt(json.loads(content), rng), rng)


YAML = (
    *(
        "a: &a [x]\nb: [*a, *a]",
        "? [a]\n: b",
        "<<: 3",
        "!!python/object:os.system x",
        "x: 2026-02-30",
        "? 2026-11-24\n: 1",
    ),
    *("x: !!int 'a'", "x: !!timestamp 'y'", "x: !!binary 'é'", "1: 2", "- a", "&a [*a]", "a: &a {b: *a}", "x: 9:99:99"),
    *(
        "\t",
        "x: '\\ud800'",
        'x: "\\ud800"',
        "true: 1",
        "null: 1",
        ".nan: 1",
        "x: !!float 'z'",
        "[" * 3000,
        "{a: " * 500,
    ),
)
SOUND = {
    "care.yaml": "fit: {resamples: 20, aggregators: [care, avg]}\nreview: {hold: false}\n"
    "nightly: {at: '03:00', zone: Europe/Berlin}\nowners: [team:x]\nlabels: {one: labels.csv}\n",
    "judges/api.yaml": "engine: {kind: openai, base_url: 'http://127.0.0.1:9/v1', model: m, template: quality, "
    "api_key_env: null, headers: {X: y}, timeout_s: 1}\nscale: [1, 10]\nfamily: f\ntestsets: [one]\n",
    "judges/length.yaml": "engine: {kind: program, program: length}\nscale: [0, 10]\n",
    "testsets/one.yaml": "source: {kind: files, items: one.csv, columns: {prompt: question, response: answer}, "
    "where: {a: b}, drop: [c]}\nscale: [0, 10]\nsystems: [s]\n",
    "prompts/own.yaml": "values: [1, 2, 3]\nneeds: [response]\ninstructions: 'Rate {{ low }} to {{ high }}'\n"
    "item: '{% if response %}{{ response[:9] | trim }}{% endif %}'\nmarker: 'Rating:'\n",
}


def declared(rng: random.Random, folder: Path) -> None:
    """Read a corrupted YAML file of a workspace."""
    from judges.prompts.template import Template
    from judges.settings_files import read_model
    from orchestration.workspace import load_workspace

    victim = rng.choice(sorted(SOUND))
    for name, content in SOUND.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    (folder / "one.csv").write_text("item_id,question,answer\ni1,a,b\n")
    (folder / "labels.csv").write_text("item_id,label\ni1,1\n")
    kind = rng.random()
    if kind < 0.6:
        document = hostile.spoilt(yaml.safe_load(SOUND[victim]), rng)
        content = (
            yaml.safe_dump(document)
            if rng.random() < 0.5
            else hostile.as_json(document, rng).decode("utf-8", "replace")
        )
    elif kind < 0.8:
        content = SOUND[victim] + rng.choice(YAML)
    else:
        content = hostile.text(SOUND[victim], rng)
    (folder / victim).write_bytes(content.encode("utf-8", "surrogatepass"))
    if victim.startswith("prompts/"):
        template = read_model(folder / victim, Template)
        template.answers((0.0, rng.choice([10.0, 1e8, float("nan"), float("inf"), 0.5])))
    else:
        load_workspace(folder)


def part(rng: random.Random, folder: Path) -> None:
    """Read a corrupted part or document."""
    from warehouse import storage
    from warehouse.items import ItemRecord
    from warehouse.parts import PartStore

    store = PartStore(folder)
    store.write_items("one", [ItemRecord(f"i{k}", "a", "b" * k, gold=k / 3) for k in range(5)])
    path = store.items_file("one")
    if rng.random() < 0.5:
        path.write_bytes(hostile.bytes_of(path.read_bytes(), rng))
        store.read_items("one")
        return
    document = folder / "d.json"
    storage.write_document(document, {"a": [1, {"b": None}], "c": "é"})
    content = document.read_bytes()
    document.write_bytes(
        hostile.bytes_of(content, rng)
        if rng.random() < 0.5
        else hostile.as_json(hostile.spoilt(json.loads(content), rng), rng)
    )
    storage.read_document(document)


def labels(rng: random.Random, folder: Path) -> None:
    """Read a corrupted file of labels, and merge a corrupted table into it."""
    from assets.labels import read_labels
    from assets.table.label_file import LabelFile

    sound = (
        "item_id,label,drawn,probability,rater,labelled_at\n"
        "i1,1,random,,ann,2026-11-24T10:00:00+00:00\ni2,,chosen,.5,,\ni3,0,random,,é,2026-11-24\n"
    )
    content = sound.encode(rng.choice(["utf-8", "utf-8", "latin-1", "utf-16"]))
    path = folder / "labels.csv"
    path.write_bytes(
        hostile.bytes_of(content, rng)
        if rng.random() < 0.5
        else hostile.text(sound, rng).encode("utf-8", "surrogatepass")
    )
    read = LabelFile.read(path)
    read.merge(read_labels(path).given, "bob", "2026-11-25")


def call(rng: random.Random, folder: Path) -> None:
    """Call ``care_eval`` with random tables and options, up to the fit."""
    from assets.table.options import table_config
    from assets.table.reading import TableInputs, read_table, reading_options, score_columns
    from care_eval.table import as_table
    from warehouse.sources.files import ignore_reading

    columns = {"item_id": [f"i{k}" for k in range(6)], **{judge: [float(k % 4) for k in range(6)] for judge in "abc"}}
    odd = {"scores": hostile.spoilt(columns, rng) if rng.random() < 0.7 else columns}
    names = [
        "scale",
        "penalty",
        "seed",
        "aggregators",
        "resamples",
        "weights",
        "scales",
        "not_quality",
        "folds",
        "rank",
    ]
    options = {rng.choice(names): hostile.value(rng)} if rng.random() < 0.5 else {}
    labels = hostile.spoilt({"i1": 1.0, "i2": 0.0}, rng) if rng.random() < 0.3 else None
    families = hostile.spoilt({"a": "x", "b": "y"}, rng) if rng.random() < 0.3 else None
    config = table_config(options)
    inputs = TableInputs(as_table(odd["scores"], "scores"), None, families, labels, config.fit.scale, config.scales)
    read_table(inputs, score_columns(None, None, None, None), reading_options(None, None, None, None), ignore_reading)


def command(rng: random.Random, folder: Path) -> None:
    """Run a command with nonsensical arguments."""
    from typer.testing import CliRunner

    from orchestration.cli.app import app

    (folder / "s.csv").write_text(
        WIDE.replace("a,b", "a,b,c").replace("4,5", "4,5,3").replace("2.5,", "2.5,1,2").replace("1,3", "1,3,2")
    )
    (folder / "i.csv").write_text("item_id,prompt,response,gold\ni1,q,a,1\ni2,q,b,0\ni3,q,c,1\n")
    (folder / "l.csv").write_bytes(hostile.text("item_id,label\ni1,1\ni2,0\n", rng).encode("utf-8", "surrogatepass"))
    sayable = [t for t in hostile.TEXTS if "\0" not in t and "\ud800" not in t and len(t) < 1000]
    odd = rng.choice(sayable)
    s, i, labelled, o, x = (str(folder / name) for name in ("s.csv", "i.csv", "l.csv", "o", "x.csv"))
    inside = str(folder / odd.strip("/. "))
    reading = rng.choice(["--separator", "--encoding", "--scale", "--seed", "--judge", "--item", "--drop"])
    label = ["label", "--items", i, "--out", str(folder / "lab.csv")]
    words = rng.choice(
        [
            ["fit", s, "--out", o, reading, odd],
            ["fit", s, "--items", labelled, "--out", o],
            ["fit", s, "--labels", labelled, "--out", o],
            ["fit", odd, "--out", o],
            ["fit", s, "--out", odd or "x"],
            [*label, "--export", str(folder / "e.csv"), rng.choice(["--seed", "--count", "--answers", "--rater"]), odd],
            [*label, "--import", labelled],
            ["label", "--items", i, "--export", str(folder / "e.csv"), "--out", labelled],
            [rng.choice(["rate", "gate"]), s, "--labels", labelled],
            ["select", s, "--out", x],
            ["import", rng.choice(["deepeval", odd]), labelled, "--out", x],
            [rng.choice(["status", "run"]), "--workspace", inside],
            ["init", inside],
            ["judges", "new", odd, "--workspace", str(folder)],
        ]
    )
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


TARGETS: dict[str, Callable[[random.Random, Path], None]] = {
    target.__name__: target
    for target in (
        *(file, query, frame, importer, declared, template, answer, endpoint, batch, program, part, labels, call),
        command,
    )
}


AT_ONCE = {"command": 8, "program": 25, "query": 25, "endpoint": 50}
"""Number of cases of a slow target in one process; other targets run a hundred."""


def try_case(target: str, seed: int, case: int, folder: Path) -> str:
    """Run one case of a target, and return ``fine`` or ``refused``.

    Raises any error that is not CARE's own, and ``FindingError`` for a message that is too long or not one line.
    """
    try:
        TARGETS[target](random.Random(f"{seed}/{target}/{case}"), folder)
    except CareError as error:
        message = str(error).replace(str(folder), "")
        if len(message) > MOST_CHARACTERS:
            raise FindingError("a message that is too long").with_traceback(error.__traceback__) from None
        if re.search(r"[\x00-\x1f\x7f]", message):
            raise FindingError("a message with control characters").with_traceback(error.__traceback__) from None
        return "refused"
    return "fine"
