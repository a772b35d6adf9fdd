"""Fixtures shared by the tests of several packages."""

import fcntl
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

# One thread a process: two test processes with two threads each take twice as long on two cores.
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# Each test process and each command that a test starts would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import numpy as np
import pytest

LONGEST = ("test_readme.py", "test_workspace_workflows.py", "test_experiments.py", "test_demo.py", "test_nights.py")
"""Modules with tests of a minute and more, which start first."""
WORKFLOWS = ("test_readme.py", "test_workspace_workflows.py", "test_user_tables.py")
WORKFLOWS += ("test_demo.py", "test_typed_commands.py", "test_documentation.py", "test_light_core.py")
WORKFLOWS += ("test_installed.py", "test_pairs.py")
"""Modules whose slow tests follow the documentation as a user does; they run in every share."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", default="1/1", help="K/N: of the modules with other slow tests, every Nth from the Kth on"
    )


def _outside_share(items: list[pytest.Item], share: str) -> list[pytest.Item]:
    """Return slow tests outside this share; modules stay whole."""
    first, of = map(int, share.split("/"))
    slow = [item for item in items if item.get_closest_marker("slow") and item.path.name not in WORKFLOWS]
    modules = sorted({str(item.path) for item in slow})
    mine = set(modules[first - 1 :: of])
    return [item for item in slow if str(item.path) not in mine]


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order long modules first, and run tests that share a module's fixture in one process.

    Otherwise each process would build that fixture: a deployment, a whole run, pages of 50,000 items. Fixtures whose
    name begins with ``_`` build nothing.
    """
    whole = ("orchestration", "browser")
    left_out = _outside_share(items, config.getoption("--share"))
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
    """Restore the log level after a test that runs ``care run --verbose`` in this process."""
    from orchestration.cli.output import print_logs

    yield
    print_logs(verbose=False)


@pytest.fixture(autouse=True)
def _no_closed_instance():
    """Keep Dagster from using the storage of an instance that another test did not close."""
    storage = sys.modules.get("dagster._core.storage.defs_state.base")
    with nullcontext() if storage is None else storage.set_defs_state_storage(None):
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of recorded scores; it is required on CI."""
    folder = os.environ.get("CARE_DATA_DIR")
    if not folder:
        if os.environ.get("CI"):
            pytest.fail("CARE_DATA_DIR is not set on CI, where the tests on real scores must run")
        pytest.skip("set CARE_DATA_DIR to the folder of recorded scores to run this test")
    return Path(folder).absolute()


@pytest.fixture(scope="session", autouse=True)
def _migrations_are_read_once():
    """Read Dagster's migrations once, because it otherwise reads all of them for each database that it opens."""
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
    """Return ``made_once(name, make)``, which returns a read-only folder that ``make`` fills for all processes."""
    mine = tmp_path_factory.getbasetemp()
    shared = mine.parent if os.environ.get("PYTEST_XDIST_WORKER") else mine

    def get(name: str, make: Callable[[Path], object]) -> Path:
        folder = shared / name
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (shared / f"{name}.made").exists():
                shutil.rmtree(folder, ignore_errors=True)  # left by a process whose ``make`` failed
                folder.mkdir()
                make(folder)
                (shared / f"{name}.made").touch()
        return folder

    return get


@pytest.fixture(scope="session")
def one_run(made_once) -> Path:
    """Return a small workspace after one run."""
    from tests.support.workspaces import make, run

    def nightly_run(folder: Path) -> None:
        assert not run(make(folder / "ws")).failures

    return made_once("one_run", nightly_run) / "ws"


@pytest.fixture
def endpoint(monkeypatch):
    """Start an endpoint that grades every answer 7, and set its key."""
    from tests.support.openai_server import Server, answer

    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with Server(lambda *_: answer("7")) as server:
        yield server


@pytest.fixture
def workspace_after_run(one_run, tmp_path) -> Path:
    """Return a copy of a small workspace (``tests.support.workspaces.make``) after one run."""
    return shutil.copytree(one_run, tmp_path / "ws", symlinks=True)
