"""How files of a workspace were read is printed and stored."""

import dagster as dg

from assets.sources import read_source
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.runner import run_stale
from orchestration.workspace import load_workspace
from tests.support.workspaces import care, make

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


def test_how_files_were_read_is_printed_and_stored(tmp_path):
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
