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

LONGEST = ("test_readme.py", "test_workspace_workflows.py", "test_experiments.py", "test_demo.py", "test_nights.py")
"""Modules with tests of a minute and more that would otherwise begin late, and end alone on one of the cores."""
ROADS = ("test_readme.py", "test_workspace_workflows.py", "test_user_tables.py", "test_user_files.py")
ROADS += ("test_demo.py", "test_typed_commands.py", "test_documentation.py", "test_light_core.py")
ROADS += ("test_installed.py", "test_pairs.py")
"""Modules whose slow tests walk what a person is told to do: they are run whatever the share."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", default="1/1", help="K/N: of modules with slow tests that walk no road, every Nth from the Kth on"
    )


def _left_out(items: list[pytest.Item], share: str) -> list[pytest.Item]:
    """Slow tests that are not of this share; modules stay whole."""
    first, of = map(int, share.split("/"))
    slow = [item for item in items if item.get_closest_marker("slow") and item.path.name not in ROADS]
    modules = sorted({str(item.path) for item in slow})
    mine = set(modules[first - 1 :: of])
    return [item for item in slow if str(item.path) not in mine]


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest first, whole workspaces; tests that share a fixture of their module stay in one process.

    Otherwise each process would make that fixture: a deployment, a night, pages of 50,000 items. A fixture whose name
    begins with ``_`` makes nothing.
    """
    whole = ("orchestration", "browser")
    left_out = _left_out(items, config.getoption("--share"))
    config.hook.pytest_deselected(items=left_out)
    kept = set(items).difference(left_out)
    items[:] = [item for item in items if item in kept]
    items.sort(key=lambda item: (item.path.name not in LONGEST, item.path.parent.name not in whole))
    for item in items:
        fixtures = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
        made = [one for definitions in fixtures for one in definitions if not one.argname.startswith("_")]
        if any(fixture.scope == "module" for fixture in made):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.fixture
def quiet_again():
    """For a test that types `care run --verbose`, whose process is that of the tests that follow."""
    from orchestration.cli.output import print_logs

    yield
    print_logs(verbose=False)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of recorded scores; on CI it must be there."""
    folder = os.environ.get("CARE_DATA_DIR")
    if not folder:
        if os.environ.get("CI"):
            pytest.fail("CARE_DATA_DIR is not set on CI, where the tests on real scores must run")
        pytest.skip("set CARE_DATA_DIR to the folder of recorded scores to run this test")
    return Path(folder).absolute()


@pytest.fixture(scope="session", autouse=True)
def _migrations_are_read_once():
    """Dagster reads all its migrations for each database that it opens, and opens ten in a night."""
    from alembic.script import ScriptDirectory

    read, kept = ScriptDirectory.from_config, {}

    def read_once(config) -> ScriptDirectory:
        location = config.get_main_option("script_location")
        if location not in kept:
            kept[location] = read(config)
        return kept[location]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ScriptDirectory, "from_config", read_once)
        yield


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
