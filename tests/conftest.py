"""Fixtures that several packages' tests share."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

# One thread a process: two test processes with two threads each take twice as long on two cores.
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

import numpy as np
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole workspaces first: what takes longest must not come last, when other processes have run out of tests."""
    items.sort(key=lambda item: item.path.parent.name not in ("orchestration", "browser"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of recorded scores; on CI it must be there."""
    folder = os.environ.get("CARE_DATA_DIR")
    if not folder:
        if os.environ.get("CI"):
            pytest.fail("CARE_DATA_DIR is not set on CI, where the tests on real scores must run")
        pytest.skip("set CARE_DATA_DIR to the folder of recorded scores to run this test")
    return Path(folder).absolute()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261120)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """``made_once(name, make)``: a folder that ``make`` fills, once for all test processes; not to be changed."""
    mine = tmp_path_factory.getbasetemp()
    shared = mine.parent if os.environ.get("PYTEST_XDIST_WORKER") else mine

    def get(name: str, make: Callable[[Path], object]) -> Path:
        folder = shared / name
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (shared / f"{name}.made").exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a process whose ``make`` failed
                folder.mkdir()
                make(folder)
                (shared / f"{name}.made").touch()
        return folder

    return get


@pytest.fixture(scope="session")
def one_night(made_once) -> Path:
    """A toy workspace after one good night."""
    from tests.support.workspaces import make, run

    def night(folder: Path) -> None:
        assert not run(make(folder / "ws")).failures

    return made_once("one_night", night) / "ws"


@pytest.fixture
def after_a_night(one_night, tmp_path) -> Path:
    """A toy workspace (``tests.support.workspaces.make``) after one good night: a copy of this test's own."""
    return shutil.copytree(one_night, tmp_path / "ws", symlinks=True)
