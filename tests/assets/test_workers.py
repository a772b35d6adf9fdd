"""Tests of a run's Dask workers: they start once, only if they save time, and give the results of one process."""

import os
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from operator import call

import psutil
import pytest

from assets.workers import DaskConfig, Workers
from care_ops.errors import InputError


@pytest.fixture(autouse=True)
def no_address(monkeypatch):
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)


def square(k: int) -> tuple[int, int]:
    time.sleep(0.02)
    return k * k, os.getpid()


def test_short_work_stays_in_this_process_and_imports_no_dask():
    code = (
        "import sys\nfrom assets.workers import DaskConfig, Workers\n"
        "assert [*Workers(DaskConfig()).map(abs, [-1, 2])] == [1, 2]\n"
        "assert not {'dask', 'distributed'} & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("config", [DaskConfig(workers=0), DaskConfig(workers=1)])
def test_a_single_process_starts_no_worker(config, monkeypatch):
    monkeypatch.setattr("assets.workers.WORTH_S", -1.0)
    workers = Workers(config)
    assert {process for _, process in workers.map(square, range(3))} == {os.getpid()}
    assert workers.place == "this process"


@pytest.mark.slow
def test_workers_start_once_for_long_work_and_end_with_the_run(monkeypatch):
    monkeypatch.setattr("assets.workers.WORTH_S", 0.1)
    with closing(Workers(DaskConfig(workers=2))) as workers:
        results = [*workers.map(square, range(20))]
        assert [value for value, _ in results] == [k * k for k in range(20)]
        here, *elsewhere = (process for _, process in results)
        assert here == os.getpid(), "the first call gives the forecast"
        assert len({*elsewhere} - {here}) == 2
        assert workers.place == "Dask (local cluster)"
        assert {process for _, process in workers.map(square, [1])} <= {*elsewhere}, "the same workers"
        made = workers.map(call, (partial(pow, 2, k) for k in range(40)))
        assert [*made] == [2**k for k in range(40)]
    assert not any(psutil.pid_exists(process) for process in {*elsewhere})


def test_later_work_of_the_run_counts_as_remaining_work():
    with closing(Workers(DaskConfig(workers=2))) as workers:
        assert len({process for _, process in workers.map(square, range(3), later=1e3)}) > 1


@pytest.mark.slow
def test_workers_end_with_a_run_that_is_killed(tmp_path):
    (tmp_path / "run.py").write_text(
        "import os, time\nimport assets.workers\nfrom assets.workers import DaskConfig, Workers\n"
        "def work(k):\n    os.write(1, b'%d\\n' % os.getpid())  # both workers write at once\n    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    assets.workers.WORTH_S = -1.0\n    list(Workers(DaskConfig(workers=2)).map(work, range(2)))\n"
    )
    with subprocess.Popen([sys.executable, tmp_path / "run.py"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        at_work = [psutil.Process(int(process.stdout.readline())) for _ in range(2)]
        process.kill()
    assert psutil.wait_procs(at_work, timeout=60)[1] == []


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "smoke://127.0.0.1:1"])
def test_an_unreachable_dask_address_is_reported_with_its_setting(monkeypatch, address):
    monkeypatch.setattr("assets.workers._CONNECT_TIMEOUT_S", 1)
    answer = "no Dask scheduler answers there"
    with pytest.raises(InputError, match=f"dask.address in care.yaml is {address}, but {answer}"):
        next(Workers(DaskConfig(address)).map(abs, [1]))
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", address)
    with pytest.raises(InputError, match=f"DASK_SCHEDULER_ADDRESS is {address}, but {answer}"):
        next(Workers(DaskConfig("tcp://127.0.0.1:2")).map(abs, [1]))
