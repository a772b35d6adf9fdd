"""Tests of moments and EM over shards of a Parquet file, with any shards and workers, also if a worker dies."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from care_ops.errors import InputError
from care_ops.moments import sharded
from care_ops.moments.sharded import Shard, UnreadableError, moments_of_shards, shards_of, with_part
from care_ops.moments.state import Moments, accumulate

JUDGES = ("a", "b", "c", "d")
FIELDS = ("n", "shift", "count1", "sum1", "count2", "sum2", "partial2", "square2", "count3", "sum3")


def scores(rng: np.random.Generator, n: int, missing: float = 0.1) -> np.ndarray:
    x = 40 + rng.normal(size=(n, 1)) + rng.normal(size=(n, 4))
    return np.where(rng.random(x.shape) < missing, np.nan, x)


def write(path: Path, values: np.ndarray, rows: int = 400) -> Path:
    columns = {judge: pa.array(values[:, k], from_pandas=True) for k, judge in enumerate(JUDGES)}
    table = pa.table({"item_id": [str(i) for i in range(len(values))], **columns})
    pq.write_table(table, path, row_group_size=rows, write_page_checksum=True)
    return path


@pytest.fixture(scope="module")
def client():
    """Start a Dask client with two processes in the folder of the tests."""
    with LocalCluster(2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def on_workers(client):
    """Return a function that maps another function over the workers."""

    def spread(function, arguments):
        futures = [client.submit(function, argument, pure=False) for argument in arguments]
        return (future.result() for future in futures)

    return spread


def same(one: Moments, other: Moments, tolerance: float = 1e-12) -> None:
    for name in FIELDS:
        a, b = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, float(np.abs(b).max())), err_msg=name)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(60, 3_000), groups=st.integers(40, 3_000), seed=st.integers(0, 10**6))
def test_neither_shards_nor_row_groups_matter(tmp_path, rows, groups, seed):
    values = scores(np.random.default_rng(seed), 1_500)
    path = write(tmp_path / "scores.parquet", values, groups)
    found = moments_of_shards(shards_of(path, rows), JUDGES)
    same(found, accumulate(values, found.shift))


def test_judges_come_in_the_order_asked_for_and_nulls_and_integers_are_read(tmp_path):
    table = pa.table({"a": pa.array([1, 2, None, 4]), "b": pa.array([0.5, None, 2.5, 4.5])})
    pq.write_table(table, tmp_path / "few.parquet")
    found = moments_of_shards(shards_of(tmp_path / "few.parquet"), ("b", "a"))
    np.testing.assert_array_equal(found.count1, [3, 3])
    np.testing.assert_allclose(found.mean(), [2.5, 7 / 3])


def test_no_shards_are_an_error():
    with pytest.raises(InputError, match="no rows"):
        moments_of_shards([], JUDGES)


def slowly(shard: Shard, judges: tuple[str, ...], shift: np.ndarray) -> Moments:
    time.sleep(0.15)
    return REAL(shard, judges, shift)


REAL = sharded.shard_moments


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path, rng, monkeypatch, client, on_workers):
    """The digits are those of a loop in one process."""
    shards = shards_of(write(tmp_path / "scores.parquet", scores(rng, 4_000)), 100)
    in_one_process = moments_of_shards(shards, JUDGES)
    undisturbed = moments_of_shards(shards, JUDGES, on_workers)
    monkeypatch.setattr(sharded, "shard_moments", slowly)
    before = client.run(os.getpid)
    killed = []

    def kill() -> None:
        time.sleep(1.0)
        victim = next(iter(client.run(os.getpid).values()))
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    disturbed = moments_of_shards(shards, JUDGES, on_workers)
    killer.join()
    assert killed[0] in before.values()
    same(undisturbed, in_one_process, 0.0)
    same(disturbed, in_one_process, 0.0)


@pytest.mark.slow
def test_workers_that_do_not_have_the_file_are_handed_its_bytes(tmp_path, rng, monkeypatch, on_workers):
    """The workers have another working folder, as on a machine without a shared disk."""
    monkeypatch.chdir(tmp_path)
    path = write(Path("scores.parquet"), scores(rng, 1_500))
    shards = shards_of(path, 100)
    same(moments_of_shards(shards, JUDGES, on_workers), moments_of_shards(shards, JUDGES), 0.0)


@pytest.mark.parametrize("rows", [90, 400, 1_000])
def test_the_bytes_of_some_rows_are_read_as_the_file_is(tmp_path, rng, rows):
    shards = shards_of(write(tmp_path / "scores.parquet", scores(rng, 1_500)), rows)
    handed = [with_part(shard) for shard in shards]
    (tmp_path / "scores.parquet").rename(tmp_path / "gone.parquet")
    same(moments_of_shards(handed, JUDGES), moments_of_shards(shards_of(tmp_path / "gone.parquet", rows), JUDGES), 0.0)


def test_damaged_bytes_are_refused_with_the_name_of_the_file(tmp_path, rng):
    path = write(tmp_path / "scores.parquet", scores(rng, 1_500))
    shards = shards_of(path, 100)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match=r"scores\.parquet"):
        moments_of_shards(shards, JUDGES)


def test_another_file_at_the_path_of_a_shard_is_not_read(tmp_path, rng):
    """An earlier copy of the file may be on another machine."""
    path = write(tmp_path / "scores.parquet", scores(rng, 300))
    shards = shards_of(path)
    write(path, scores(rng, 299))
    with pytest.raises(UnreadableError, match="another file has replaced it"):
        moments_of_shards(shards, JUDGES)
