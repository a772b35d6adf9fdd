"""Tests of stored findings of experiments, and of their pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assets.experiments.base import Chart, ExperimentFindings, Heatmap, Table, read_stored
from assets.experiments.pages import write_experiments
from assets.experiments.registry import experiments
from assets.report.charts import Series
from orchestration.workspace import load_workspace
from warehouse.storage import write_document

VERSION = {"code": "c0de"}
FINDINGS = ExperimentFindings(
    ["one conclusion"],
    [Table("numbers", [{"name": "a", "value": 0.5, "count": 3}])],
    [
        Chart("a chart", "x", "y", [Series("care", [1, 2], [0.5, 0.75], [0.25, 0.5], [0.75, 1.0])]),
        Heatmap("a heatmap", ["r"], ["c", "d"], [[0.5, None]]),
    ],
)


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "care.yaml").write_text("{}\n")
    return load_workspace(tmp_path)


@pytest.fixture
def experiment():
    return replace(experiments()["orthogonality"], small={"seeds": 5, "strengths": (0.5, 1)})


def test_findings_are_stored_and_every_kind_of_figure_is_rendered(workspace, experiment):
    experiment.store(workspace, FINDINGS, VERSION, seconds=1.5)
    stored = read_stored(workspace, experiment.key)
    assert [type(figure) for figure in stored.findings.figures] == [Chart, Heatmap]
    assert stored.findings.tables[0].rows == [{"name": "a", "value": 0.5, "count": 3}]
    assert experiment.is_current(workspace, VERSION)
    assert not experiment.is_current(workspace, {**VERSION, "one": "another panel"})
    full = replace(workspace, experiments="full")
    assert not experiment.is_current(full, VERSION), "the small size does not replace the full one"
    page = write_experiments(workspace.report_folder, workspace, [experiment])["orthogonality"].read_text()
    for text in ("one conclusion", "a chart", "a heatmap", "seeds 5; strengths 0.5, 1", "c0de"):
        assert text in page
    index = workspace.report_folder / "experiments.html"
    assert "one conclusion" in index.read_text()
    assert "Stale" not in page + index.read_text()
    stale = write_experiments(workspace.report_folder, workspace, [experiment], ["orthogonality"])["orthogonality"]
    assert "Stale" in stale.read_text()
    assert "Stale" in index.read_text()
    experiment.store(full, FINDINGS, VERSION, seconds=1.5)
    assert experiment.is_current(workspace, VERSION), "the full size replaces the small one"


def test_findings_in_the_form_of_an_earlier_release_count_as_missing(workspace, experiment):
    write_document(workspace.experiment_file(experiment.key), {"version": {"code": "c"}, "findings": {"says": []}})
    assert read_stored(workspace, experiment.key) is None
    assert not experiment.is_current(workspace, {})
    assert workspace.experiment_file(experiment.key).exists(), "it is not damaged"
