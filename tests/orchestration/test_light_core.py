"""Tests of the core (``pip install .``): tables, labels, rates and gates without the pipeline."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from orchestration.cli.output import PIPELINE
from tests.orchestration.test_documentation import blocks
from tests.orchestration.test_installed import ROOT, copied, wheel
from tests.orchestration.test_readme import BIN, bring_scores, environment

CORE = {
    *("numpy", "scipy", "pyarrow", "threadpoolctl", "pydantic", "pydantic_core", "annotated-types"),
    *("typing_extensions", "typing-inspection", "PyYAML", "typer", "click", "shellingham", "annotated-doc", "rich"),
    *("markdown-it-py", "mdurl", "Pygments", "Jinja2", "MarkupSafe", "textstat", "pyphen", "setuptools", "care-eval"),
}
LARGEST_MB = 450  # pyarrow, scipy and numpy are 390 of them


@pytest.fixture(scope="module")
def core(tmp_path_factory) -> Path:
    """Return the folder of programs in a new environment with only the core."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder / "venv", with_pip=True)
    install = [folder / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*install, "-c", ROOT / "requirements.lock", wheel(copied(folder / "clone"), folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "venv" / "bin"


def typed(programs: Path, cwd: Path, line: str, code: int = 0) -> tuple[str, str]:
    """Run a command with ``programs`` first on the path; return its output, with the time replaced by "now"."""
    variables = environment(programs)
    variables.pop("PYTHONPATH", None)
    done = subprocess.run(
        shlex.split(line),
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == code, f"{line}:\n{done.stdout}\n{done.stderr}"
    return re.sub(r"\d\d:\d\d", "now", done.stdout), done.stderr


@pytest.fixture(scope="module")
def first_panel(tmp_path_factory) -> Path:
    """Write the files of the first page of the documentation."""
    return shutil.copytree(ROOT / "examples" / "quickstart", tmp_path_factory.mktemp("first") / "panel")


def test_commands_name_the_extra_with_their_missing_library():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["pipeline"]
    assert {line.split(">")[0].replace("-", "_") for line in extra} <= PIPELINE


def test_the_version_is_printed_without_the_pipeline():
    code = "import sys; sys.modules |= {'duckdb': None, 'dagster': None}; from orchestration.cli.app import app; app()"
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:5]) == (0, "care "), done.stderr


@pytest.mark.slow
def test_the_core_is_small_and_has_no_pipeline_packages(core):
    listed = json.loads(subprocess.check_output([core / "pip", "list", "--format", "json"], text=True))
    assert {one["name"].lower() for one in listed} - {"pip"} == {name.lower() for name in CORE}
    (site,) = (core.parent / "lib").glob("python3*/site-packages")
    files = [path for path in site.rglob("*") if path.is_file() and path.relative_to(site).parts[0] != "pip"]
    assert sum(path.stat().st_size for path in files) / 1e6 < LARGEST_MB


@pytest.mark.slow
def test_the_core_gives_the_same_estimates_as_a_full_installation(core, first_panel, tmp_path):
    """Both environments run the commands of the first page, and others on a table of scores."""
    lines = [line for block in blocks("index.md", "sh") for line in block.splitlines() if line]
    systems = "--items items.csv --system model --labels labels.csv"
    in_a_folder = [
        f"care rate scores.csv {systems}",
        f"care gate scores.csv new --against old {systems} --margin 0.02",
        "care judges report scores.csv --labels labels.csv --cut 5",
        "care import --help",
        "care label --help",
    ]
    here = {core: tmp_path / "core", BIN: tmp_path / "all"}
    printed = {}
    for programs, folder in here.items():
        shutil.copytree(first_panel, folder)
        (folder / "systems").mkdir()
        bring_scores(folder / "systems")
        printed[folder] = [typed(programs, folder, line)[0] for line in lines]
        printed[folder] += [typed(programs, folder / "systems", line)[0] for line in in_a_folder]
    ours, theirs = here.values()
    assert printed[ours] == printed[theirs]
    assert len(lines) == sum(line.startswith("care fit") for line in lines) == 3, "after the one that installs"
    for name in ("scores-fit", "informed", "labelled"):
        assert (ours / name / "report.html").is_file()
        mine, other = (pq.read_table(folder / name / "aggregates.parquet") for folder in (ours, theirs))
        keys = ["aggregator", "item_id"]
        first, second = (table.sort_by([(key, "ascending") for key in keys]) for table in (mine, other))
        assert first.select(keys) == second.select(keys)
        estimates = zip(first["estimate"].to_pylist(), second["estimate"].to_pylist(), strict=True)
        assert max(abs(a - b) for a, b in estimates if a is not None) <= 1e-8
    script = "import care_eval; print(len(care_eval.fit('scores.csv').to_frame()))"
    assert int(typed(core, ours, f"python -W ignore -c {shlex.quote(script)}")[0]) >= 200


@pytest.mark.slow
def test_a_query_without_duckdb_names_the_extra(core, first_panel, tmp_path):
    shutil.copytree(first_panel, tmp_path, dirs_exist_ok=True)
    (tmp_path / "scores.sql").write_text("SELECT * FROM 'scores.csv'")
    _, shown = typed(core, tmp_path, "care fit scores.sql", code=2)
    assert "scores.sql: DuckDB is not installed; run pip install '.[sql]'" in " ".join(shown.split())


@pytest.mark.slow
def test_workspace_commands_name_the_pipeline_extra(core, tmp_path):
    assert "created" in typed(core, tmp_path, "care init mine")[0]
    for command in ("run", "status", "doctor", "ui", "admin daemon"):
        _, shown = typed(core, tmp_path, f"care {command} --workspace mine", code=1)
        assert "pip install '.[pipeline]'" in " ".join(shown.split()), command
        assert "Traceback" not in shown
