"""A workspace over files as people have them: what they were taken for is told and kept."""

import dagster as dg
import numpy as np
import pytest

from assets.sources import read_source
from care_ops.metrics import auc
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.runner import run_stale
from orchestration.workspace import load_workspace
from tests.support.workspaces import QUICK, care, make, query, run

WITH_SCORES = """\
source:
  kind: files
  items: answers.csv
  columns: {prompt: question, response: answer, gold: label}
  reading: {separator: ";", decimal: ","}
  scores: {path: scores.tsv.gz}
scale: [0, 10]
"""


def write(folder):
    """Items separated by semicolons, and scores as pandas compresses a wide table with gold among the judges."""
    import pandas

    (folder / "answers.csv").write_text(
        "id;question;answer;label\n" + "".join(f"i{k};why?;because {k};{k % 5},5\n" for k in range(30))
    )
    scores = {judge: [float((k * step) % 11) for k in range(30)] for judge, step in (("a", 1), ("b", 3), ("c", 7))}
    table = pandas.DataFrame({"id": [f"i{k}" for k in range(30)], **scores, "gold": [k % 5 for k in range(30)]})
    table.to_csv(folder / "scores.tsv.gz", sep="\t")
    (folder / "testsets" / "one.yaml").write_text(WITH_SCORES)


def test_what_files_were_taken_for_is_told_and_kept(tmp_path):
    folder = make(tmp_path / "ws", judges=())
    write(folder)
    workspace = load_workspace(folder)
    assert sorted(workspace.judges) == ["a", "b", "c"]
    assert read_source(workspace, "one")[3].gold == 3.5
    printed = care(folder, "doctor", "--json")
    for words in ("text separated by a semicolon", "'unnamed column 1' (has no name", "'gold' (a label by its name"):
        assert words in printed
    with workspace_instance(workspace) as instance:
        defs = build_defs(folder, workspace)
        assert not run_stale(defs, workspace, instance, selection="key:items or key:judge_inference").failures
        kept = {}
        for asset, partition in (("items", "one"), ("judge_inference", "a")):
            records = instance.fetch_materializations(
                dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[partition]), limit=1
            ).records
            kept[asset] = str(records[0].asset_materialization.metadata["as_read"].value).replace("\\", "")
    assert "separated by a semicolon with a decimal comma" in kept["items"]
    assert "left out: 'unnamed column 1' (has no name, as an index has none), 'gold' (a" in kept["judge_inference"]


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False])
def test_a_recorded_crowd_is_fitted_whether_or_not_it_is_declared(tmp_path, rng, declared):
    """Thirty recorded judges with five scores an item: a whole night over a panel most of which was never asked for."""
    folder = make(tmp_path / "ws", judges=(), care=QUICK + ("panel: {absent: not_asked}\n" if declared else ""))
    quality = rng.integers(0, 2, 80)
    (folder / "answers.csv").write_text(
        "id,question,answer,label\n" + "".join(f"i{k},why?,because {k},{quality[k]}\n" for k in range(80))
    )
    rows = ["item_id,judge,score"]
    for k in range(80):
        for j in rng.choice(30, 5, replace=False):
            rows.append(f"i{k},worker{j:02},{3 + 4 * quality[k] + rng.normal():.2f}")
    (folder / "scores.csv").write_text("\n".join(rows) + "\n")
    (folder / "testsets" / "one.yaml").write_text(
        "source:\n  kind: files\n  items: answers.csv\n"
        "  columns: {prompt: question, response: answer, gold: label}\n  scores: {path: scores.csv}\nscale: [-2, 12]\n"
    )
    outcome = run(folder)
    assert not outcome.failures
    assert run(folder).materialised == []
    answers = dict(query(folder, "SELECT item_id, estimate FROM latest_aggregates WHERE aggregator = 'care'"))
    gold = np.array([quality[int(item[1:])] for item in answers])
    assert auc(np.array(list(answers.values())), gold) > 0.95
    (page,) = (folder / "data" / "report").glob("testset-one.html")
    assert "and count as not asked" in page.read_text()
