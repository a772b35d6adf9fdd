"""Tests that ``care fit`` and the library have the same options, and that advice of ``care select`` works."""

import inspect
import itertools
import json
import re
import shlex

import numpy as np
import pytest

from assets.table.options import FitOptions
from care_ops.selection import GRIDS
from care_ops.simulate import four_state_mixture
from orchestration.cli.fit import fit
from orchestration.cli.tables import SETTINGS
from tests.support.matrices import matrix
from tests.support.workspaces import typed, typed_json, write_table

OF_FILES = {"scores", "out", "items", "judges", "labels", "json", "why"}
OF_TYPER = {"context"}
OF_READING = {"item", "judge", "score", "drop", "separator", "encoding", "decimal", "sheet", "grades"}
IN_ONE_OPTION = {"scales"}
"""Options of the library that share an option of the command: ``--scale 1 10 --scale JUDGE=0:100``."""
SINGULAR = {"aggregator": "aggregators"}
"""Repeatable options of the command, with the name of the library's option."""


def write_panel(path, scores):
    """Write a wide table of a panel's scores."""
    rows = zip(scores.item_ids, scores.values.round(4).tolist(), strict=True)
    return write_table(path, ("item_id", *scores.judges), [(item, *row) for item, row in rows])


@pytest.fixture
def files(tmp_path, rng):
    scores = matrix(rng.normal(size=(80, 1)) + rng.normal(size=(80, 6)))
    write_panel(tmp_path / "scores.csv", scores)
    return tmp_path


def test_command_and_library_have_the_same_options():
    options = set(inspect.signature(fit).parameters) - OF_FILES - OF_READING - OF_TYPER
    assert {SINGULAR.get(name, name) for name in options} == set(FitOptions.__annotations__) - IN_ONE_OPTION
    assert set(SETTINGS) < set(FitOptions.__annotations__)


def test_care_select_rescales_judges_as_care_fit_does(files):
    """A judge's own scale, inferred or declared, must not change the choice or its error."""
    header, *lines = (files / "scores.csv").read_text().splitlines()
    names, scores = [line.split(",")[0] for line in lines], np.array([line.split(",")[1:] for line in lines], float)
    grades = np.clip(np.round(5 + 2 * scores, 2), 0, 10)
    items = write_table(files / "items.csv", ("item_id", "gold"), [(name, k % 11) for k, name in enumerate(names)])

    def measured(last, *options):
        other = write_panel(files / "other.csv", matrix(np.column_stack([grades[:, :-1], last])))
        rows = typed_json("select", other, "--items", items, *options)["measured_on_the_rest"]
        return [row[metric] for row in rows for metric in ("tau", "mae")]

    last = header.split(",")[-1]
    as_given = pytest.approx(measured(grades[:, -1]), abs=2e-3)  # rounding errors break ties of the average
    assert measured(10 * grades[:, -1]) == as_given
    assert measured(3 + 2 * grades[:, -1], "--scale", f"{last}=3:23") == as_given


def test_care_select_prints_a_command_that_works(files):
    names = [line.partition(",")[0] for line in (files / "scores.csv").read_text().splitlines()[1:]]
    items = write_table(files / "items.csv", ("item_id", "gold"), [(name, k) for k, name in enumerate(names)])
    advised = typed("select", files / "scores.csv", "--items", items)
    (command,) = re.findall(r"with these penalties: (care fit .* --gamma \S+ --tau \S+)", advised)
    words = shlex.split(command)
    assert words[2:5] == [str(files / "scores.csv"), "--items", str(files / "items.csv")]
    typed(*words[1:], "--aggregator", "care_svd", "--out", files / "o", "--intervals", 0)
    structure = json.loads((files / "o" / "fit.json").read_text())["provenance"]["config"]["structure"]
    assert structure["gamma"] == float(words[-3])
    assert structure["tau"] == float(words[-1])
    assert "affect only the aggregators care_svd" in advised


@pytest.mark.slow
def test_select_tunes_algorithm_2_over_the_papers_25_penalties(tmp_path, monkeypatch):
    steps = (0.001, 0.005, 0.01, 0.05, 0.1)
    assert GRIDS["care_tensor_paper"] == tuple(itertools.product(steps, steps))
    monkeypatch.setitem(GRIDS, "care_tensor_paper", ((0.001, 0.1), (0.05, 0.005)))
    draw = four_state_mixture(np.random.default_rng(1), n=400, p=9, noise=0.5)
    scores = matrix(draw.scores)
    gold = zip(scores.item_ids, (draw.states % 2).tolist(), strict=True)
    items = write_table(tmp_path / "items.csv", ("item_id", "gold"), gold)
    # the average has no threshold without --cut, so its row has no accuracy
    panel = write_panel(tmp_path / "scores.csv", scores)
    advised = typed("select", panel, "--items", items, "--aggregator", "care_tensor_paper")
    assert "fit: {aggregators: [care, care_tensor_paper], gamma: " in advised
    (command,) = re.findall(r"with these penalties: care (fit .* --gamma \S+ --tau \S+)", advised)
    assert "--aggregator care_tensor_paper" in command
    typed(*shlex.split(command), "--out", tmp_path / "o", "--intervals", 0)
