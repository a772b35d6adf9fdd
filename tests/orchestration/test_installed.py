"""Tests of a wheel installed outside a clone, alone and in a project with its own ``assets`` package."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from assets.judge_keys import judge_key
from deploy.namespaced import write
from tests.support.workspaces import make

ROOT = Path(__file__).parents[2]
FACE = "care_eval"
PACKAGES = {"care_ops", "judges", "warehouse", "assets", "orchestration"}
pytestmark = pytest.mark.slow

HOST_DEFINITIONS = """
import dagster as dg
from assets.tables import theirs
from {prefix}orchestration.definitions import build_defs

defs = dg.Definitions.merge(build_defs(), dg.Definitions([theirs]))
"""


def copied(to: Path) -> Path:
    """Copy the sources without generated files."""
    skipped = shutil.ignore_patterns(".*", "build", "dist", "demo", "data", "__pycache__", "*.egg-info")
    return shutil.copytree(ROOT, to, ignore=skipped)


def wheel(source: Path, into: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", str(into), str(source)], check=True, capture_output=True)
    return next(into.glob("*.whl"))


def installed(source: Path, tmp_path: Path) -> Path:
    """Return a folder with the contents of the wheel of ``source``."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "site")]
    subprocess.run([*command, str(wheel(source, tmp_path / "wheels"))], check=True, capture_output=True)
    return tmp_path / "site"


@pytest.fixture(scope="session")
def plain(made_once):
    """Return the installed contents of the wheel of these sources, built from a copy to keep the tree clean."""

    def build(folder):
        installed(copied(folder / "clone"), folder)
        shutil.rmtree(folder / "clone")

    return made_once("plain", build) / "site"


def python(site: Path, cwd: Path, *words: str, code: int = 0) -> str:
    """Run Python without the editable installation of CARE, because ``-S`` reads no .pth file."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), sysconfig.get_path("purelib")])}
    command = [sys.executable, "-S", "-W", "ignore", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_wheel_has_all_packages_and_data_files(plain):
    names = {p.name for p in plain.iterdir() if p.name != "bin" and not p.name.endswith(".dist-info")}
    assert names == {*PACKAGES, FACE}
    for needed in ("warehouse/schema.sql", "assets/report/templates/page.html", f"{FACE}/py.typed"):
        assert (plain / needed).is_file()


def test_an_installed_wheel_runs_the_demo_and_fits_a_file(plain, tmp_path):
    site, empty = plain, tmp_path / "elsewhere"
    empty.mkdir()
    code = "import assets, care_ops, orchestration; print(assets.__file__, care_ops.__file__, orchestration.__file__)"
    assert python(site, empty, "-c", code).count(str(site)) == 3
    care = ("-m", "orchestration.cli")
    python(site, empty, *care, "init", "demo")
    assert "Agreement of aggregates with gold" in python(site, empty, *care, "run", "--workspace", "demo")
    assert (empty / "demo" / "data" / "report" / "index.html").exists()
    rows = [f"i{k},{k % 7},{(k * 3) % 7},{(k + k % 3) % 7}" for k in range(60)]
    (empty / "scores.csv").write_text("\n".join(["item_id,a,b,c", *rows]) + "\n")
    python(site, empty, *care, "fit", "scores.csv", "--out", "out")
    assert (empty / "out" / "report.html").exists()


def test_a_project_with_its_own_assets_mounts_the_namespaced_distribution(plain, tmp_path):
    """The plain wheel would break the project; both wheels have the same judge keys and code versions."""
    host = tmp_path / "host"
    (host / "assets").mkdir(parents=True)
    (host / "assets" / "__init__.py").write_text("")
    (host / "assets" / "tables.py").write_text("import dagster as dg\n\n@dg.asset\ndef theirs(): ...\n")
    folder = make(tmp_path / "ws")
    (host / "plain.py").write_text(HOST_DEFINITIONS.format(prefix=""))
    failed = python(plain, host, "-c", "import plain", code=1)
    assert "No module named 'assets." in failed, "their package hides ours"

    write(tmp_path / "source")
    site = installed(tmp_path / "source", tmp_path)
    assert [p.name for p in site.iterdir() if not p.name.endswith(".dist-info") and p.name != "bin"] == [FACE]
    answer = "import care_eval as c; print(len(c.fit('scores.csv', intervals=0).items), c.CareEstimator.__module__)"
    rows = [f"i{k},{k * 7 % 10},{k * 7 % 10 + k % 2},{k * 7 % 10 + k % 3},{k * 7 % 10 + k % 5}\n" for k in range(30)]
    (tmp_path / "scores.csv").write_text("item_id,a,b,c,d\n" + "".join(rows))
    assert python(site, tmp_path, "-c", answer).splitlines()[-1] == "30 care_eval.care_ops.estimators"
    (host / "theirs.py").write_text(HOST_DEFINITIONS.format(prefix="care_eval."))
    report = (
        "import sys, json, theirs\n"
        "from care_eval.assets.judge_keys import judge_key\n"
        "from care_eval.orchestration.workspace import load_workspace\n"
        "from pathlib import Path\n"
        f"graph, loaded = theirs.defs.resolve_asset_graph(), load_workspace(Path({str(folder)!r}))\n"
        "print(json.dumps({'keys': sorted(k.to_user_string() for k in graph.get_all_asset_keys()),\n"
        "  'codes': {k.to_user_string(): graph.get(k).code_version for k in graph.get_all_asset_keys()},\n"
        "  'judges': {j: judge_key(loaded, j, 'one') for j in loaded.judges},\n"
        f"  'ours': [m for m in sys.modules if m.partition('.')[0] in {sorted(PACKAGES - {'assets'})}]}}))\n"
    )
    report_of_host = json.loads(python(site, host, "-c", report).splitlines()[-1])
    assert {"theirs", "aggregates"} <= set(report_of_host["keys"])
    assert report_of_host["ours"] == [], "nothing of the plain distribution is imported"
    from orchestration.definitions import ASSETS
    from orchestration.workspace import load_workspace

    here = load_workspace(folder)
    assert report_of_host["judges"] == {judge: judge_key(here, judge, "one") for judge in here.judges}
    for spec in (spec for definition in ASSETS for spec in definition.specs):
        assert report_of_host["codes"][spec.key.to_user_string()] == spec.code_version, spec.key
    ran = python(site, host, "-m", "care_eval.orchestration.cli", "run", "--workspace", str(folder))
    assert "Agreement of aggregates with gold" in ran
