"""Tests of limits for input: memory, size of unpacked files, duration of queries; honest files stay below them."""

from __future__ import annotations

import json
import mmap
import resource
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from care_ops.errors import InputError
from judges.settings_files import load_yaml
from warehouse.sources import bounds, query
from warehouse.sources.files import read_scores
from warehouse.sources.input_table import COMPRESSED
from warehouse.sources.tables import read_input_table

ROOT = Path(__file__).parents[2]
_READS = """
import resource, sys
from pathlib import Path
from care_ops.errors import InputError
from warehouse.sources import bounds
from warehouse.sources.files import read_scores
from warehouse.importers.registry import read_import
from assets.table.label_file import LabelFile
bounds.free_memory = lambda: 400 << 20
before = resource.getrlimit(resource.RLIMIT_AS)
path = Path(sys.argv[1])
try:
    {"scores": read_scores, "labels": LabelFile.read}.get(sys.argv[2], lambda p: read_import("promptfoo", p))(path)
except InputError as error:
    print(error)
assert resource.getrlimit(resource.RLIMIT_AS) == before
"""


def read_with_400_megabytes(path: Path, how: str = "scores") -> str:
    """Read a file in a process with 400 MB of memory; return its message, or an empty text after success."""
    done = subprocess.run(
        [sys.executable, "-c", _READS, str(path), how], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def far_too_large(kind: str, path: Path) -> None:
    """Write a file whose table needs several times 400 MB."""
    if kind == "sql":
        path.write_text("SELECT 'item ' || k AS item_id, k AS a, k AS b FROM range(50000000) t(k)")
    elif kind == "json":
        path.write_text(json.dumps([{"item_id": f"i{k}", "a": k, "b": 1} for k in range(1_500_000)]))
    else:
        line = "item_id,label,drawn,probability,rater,labelled_at\n" if kind == "labels.csv" else "item_id,a,b\n"
        row = ",1,random,,ann,2026-11-24\n" if kind == "labels.csv" else ",1,2\n"
        with path.open("w") as file:
            file.write(line)
            file.writelines(f"item {k}{row}" for k in range(6_000_000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sql", "json", "csv", "labels.csv", "promptfoo.json"])
def test_a_table_larger_than_the_free_memory_is_refused(kind, tmp_path):
    path = tmp_path / f"far.{kind}"
    far_too_large(kind.replace("promptfoo.", ""), path)
    how = {"labels.csv": "labels", "promptfoo.json": "promptfoo"}.get(kind, "scores")
    message = read_with_400_megabytes(path, how)
    assert str(path) in message
    assert "memory" in message.lower(), message
    assert len(message) <= 400


@pytest.mark.slow
def test_what_fits_is_read_with_so_little_memory_too(tmp_path):
    (tmp_path / "s.csv").write_text("item_id,a,b\n" + "".join(f"i{k},{k},{k % 7}\n" for k in range(200_000)))
    assert read_with_400_megabytes(tmp_path / "s.csv") == ""


def test_the_limit_is_that_of_the_outermost_reading_and_is_taken_back(monkeypatch):
    def limit() -> int:
        return resource.getrlimit(resource.RLIMIT_AS)[0]

    before = limit()
    monkeypatch.setattr(bounds, "free_memory", lambda: 2**40)
    with bounds.within_memory("outer"):
        outer = limit()
        monkeypatch.setattr(bounds, "free_memory", lambda: 2**42)
        with bounds.within_memory("inner"):
            assert 2**40 < limit() < 2**41
        assert 2**40 < limit() < 2**41
        with (
            pytest.raises(InputError, match=r"^inner: CARE needs more than .* split the file"),
            bounds.within_memory("inner"),
        ):
            raise MemoryError
    assert limit() == before != outer
    monkeypatch.setattr(bounds, "free_memory", lambda: None)  # a system without this figure
    with bounds.within_memory("anything"):
        assert limit() == before


def test_addresses_that_are_reserved_and_not_used_are_no_memory(monkeypatch):
    """Threads and allocators reserve much more memory than they use."""
    monkeypatch.setattr(bounds, "free_memory", lambda: 300 << 20)
    with bounds.within_memory("a table"):
        kept = []
        for _ in range(6):  # each time less than what is left
            kept.append(mmap.mmap(-1, 200 << 20))
            raised = resource.getrlimit(resource.RLIMIT_AS)[0]
            while resource.getrlimit(resource.RLIMIT_AS)[0] == raised:
                time.sleep(0.01)
    assert len(kept) == 6
    with pytest.raises(InputError, match="needs more than"), bounds.within_memory("a table"):
        _ = [bytearray(b"x" * (50 << 20)) for _ in range(20)]


def test_the_free_memory_is_that_of_the_machine():
    sizes = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total = 1024 * int(sizes["MemTotal"].split()[0])
    assert 0 < bounds.free_memory() <= total


@pytest.mark.parametrize("compression", ["gz", "bz2", "zst"])
def test_a_file_that_unpacks_to_many_times_its_size_is_refused_and_an_honest_one_is_not(
    compression, tmp_path, monkeypatch
):
    monkeypatch.setattr(bounds, "_SMALL", 2**20)

    def write(name: str, rows: str) -> Path:
        path = tmp_path / f"{name}.csv.{compression}"
        with pa.output_stream(path, compression=COMPRESSED[path.suffix]) as stream:
            stream.write(f"item_id,a,b\n{rows}".encode())
        return path

    honest = write("honest", "".join(f"i{k},{(k * 7919) % 1000},{k % 5}\n" for k in range(100_000)))
    assert len(read_scores(honest).scores.item_ids) == 100_000
    with pytest.raises(InputError, match=r"unpack to .* unpack it, and give the unpacked file"):
        read_input_table(write("bomb", "i,1,2\n" * 400_000))


def test_a_query_without_an_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(query, "_MAX_S", 2)
    path = tmp_path / "endless.sql"
    path.write_text("SELECT sum(a.k * b.k) AS item_id FROM range(10000000) a(k), range(10000000) b(k)")
    with pytest.raises(InputError, match="needs more than 2 s"):
        read_scores(path)


def laughs(levels: int) -> str:
    """Return a short document in which each line repeats the line above ten times."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize("content", [laughs(9), "a: &a [*a]", "a: &a {b: *a}", "x: " + "y" * 2**21])
def test_a_yaml_file_is_no_longer_than_people_write_it_also_by_its_aliases(content, tmp_path):
    path = tmp_path / "j.yaml"
    path.write_text(content)
    began = time.monotonic()
    with pytest.raises(InputError, match=r"its aliases|is larger than"):
        load_yaml(path)
    assert time.monotonic() - began < 10


def test_aliases_and_merges_that_people_write_are_read(tmp_path):
    path = tmp_path / "j.yaml"
    path.write_text("base: &b {x: 1, y: [1, 2]}\none: {<<: *b, z: 3}\ntwo: *b\n" + laughs(4))
    read = load_yaml(path)
    assert read["one"] == {"x": 1, "y": [1, 2], "z": 3}
    assert read["two"] == {"x": 1, "y": [1, 2]}
