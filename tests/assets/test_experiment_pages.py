"""What an experiment found is kept as a typed record, and its page is drawn from that record alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assets.experiments.base import Chart, ExperimentFindings, Heatmap, Table
from assets.experiments.pages import write_experiments
from assets.experiments.registry import experiments
from assets.report.charts import Series
from orchestration.workspace import load_workspace
from warehouse.storage import write_document

FINDINGS = ExperimentFindings(
    ["one thing came out"],
    [Table("numbers", [{"name": "a", "value": 0.5, "count": 3}])],
    [
        Chart("a chart", "x", "y", [Series("care", [1, 2], [0.5, 0.75], [0.25, 0.5], [0.75, 1.0])], logarithmic=True),
        Heatmap("a heatmap", ["r"], ["c", "d"], [[0.5, None]], [["+0.50", "–"]]),
    ],
)


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "care.yaml").write_text("{}\n")
    return load_workspace(tmp_path)


@pytest.fixture
def experiment():
    return replace(experiments()["orthogonality"], small={"seeds": 5, "strengths": (0.5, 1)})


def test_findings_come_back_and_every_kind_of_figure_is_drawn(workspace, experiment):
    experiment.keep(workspace, FINDINGS, None, seconds=1.5)
    kept = experiment.kept(workspace)
    assert kept is not None
    assert [type(figure) for figure in kept.findings.figures] == [Chart, Heatmap]
    assert kept.findings.tables[0].rows == [{"name": "a", "value": 0.5, "count": 3}]
    assert kept.size == {"seeds": 5, "strengths": [0.5, 1]}
    assert experiment.current(workspace, None)
    assert not experiment.current(workspace, {"one": "another panel"})
    page = write_experiments(workspace.report_folder, workspace, [experiment])["orthogonality"].read_text()
    for text in ("one thing came out", "a chart", "a heatmap", kept.version.code):
        assert text in page
    index = workspace.report_folder / "experiments.html"
    assert "one thing came out" in index.read_text()
    assert "Out of date" not in page + index.read_text()
    outdated = write_experiments(workspace.report_folder, workspace, [experiment], ["orthogonality"])["orthogonality"]
    assert "Out of date" in outdated.read_text()
    assert "Out of date" in index.read_text()


def test_what_an_earlier_release_kept_in_another_form_counts_as_not_there(workspace, experiment):
    write_document(
        workspace.experiment_file(experiment.key), {"version": {"code": "c", "reads": None}, "findings": {"says": []}}
    )
    assert experiment.kept(workspace) is None
    assert not experiment.current(workspace, None)
    assert workspace.experiment_file(experiment.key).exists(), "it is not damaged"
