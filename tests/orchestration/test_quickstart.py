"""Tests of ``examples/quickstart``: generated files, and a simulated length bias that misleads the plain average."""

import json
import runpy
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestration.cli.app import app

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return shutil.copytree(QUICKSTART, tmp_path_factory.mktemp("quickstart") / "tables")


def test_the_generator_reproduces_the_quickstart_files(tables):
    for path in tables.glob("*.csv"):
        path.unlink()
    runpy.run_path(str(tables / "generate.py"), run_name="__main__")
    for path in QUICKSTART.glob("*.csv"):
        assert (tables / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_fit_removes_the_planted_length_bias(tables):
    given = ["fit", tables / "scores.csv", "--items", tables / "items.csv", "--judges", tables / "judges.csv"]
    done = CliRunner().invoke(app, [*map(str, given), "--out", str(tables / "fit"), "--intervals", "0"])
    assert done.exit_code == 0, done.output
    document = json.loads((tables / "fit" / "fit.json").read_text())
    tau = {name: found["tau"] for name, found in document["evaluation"].items()}
    assert tau["care"] > tau["avg"] + 0.03
    assert "agreement with gold (Kendall's tau): care 0.8" in done.output


def test_repeated_runs_give_pass_k_and_the_noise_of_judges(tables):
    """The simulated pass rates are .43 and .69; those of two passes on one question are lower."""
    given = ["--items", tables / "items.csv", "--system", "system", "--labels", tables / "labels.csv", "--json"]

    def asked(*words):
        done = CliRunner().invoke(app, [str(word) for word in (*words, *given)])
        return done.exit_code, json.loads(done.stdout)

    once, twice = (asked("rate", tables / "scores.csv", "--pass-k", k)[1] for k in (1, 2))
    assert [row["system"] for row in once] == [row["system"] for row in twice] == ["v2", "v1"]
    for one, both in zip(once, twice, strict=True):
        assert both["value"] < one["value"]
        assert (one["items"], both["items"], both["labels"]) == (100, 50, 12)
    assert once[0]["judge noise"] is None
    assert 0 < once[1]["judge noise"] < 0.3
    code, (row,) = asked("gate", tables / "scores.csv", "v2", "--against", "v1", "--pass-k", 2)
    assert (row["outcome"], code) in (("better", 0), ("undecided", 4))
    assert row["judge noise"] == once[1]["judge noise"]
