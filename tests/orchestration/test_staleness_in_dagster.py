"""Tests that Dagster's UI and CARE agree on stale and missing assets."""

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from assets.report.verdicts import current_verdicts
from orchestration.instance import dagster_home, delete_old_runs, workspace_instance
from orchestration.plan import find_stale
from orchestration.workspace import load_workspace
from tests.support.servers import dagster_webserver
from tests.support.workspaces import make, run, write_items, write_judge, write_testset

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGES = ("assets", "care_ops", "judges", "orchestration", "warehouse")

NODES = "{assetNodes{assetKey{path} groupName isPartitioned}}"
NODE = "query($key: AssetKeyInput!) {assetNodeOrError(assetKey: $key) {... on AssetNode {%s}}}"
STATUS = NODE.replace("!)", "!, $partitions: [String!])", 1) % "staleStatusByPartition(partitions: $partitions)"
METADATA = (
    "assetMaterializations(limit: 1) {metadataEntries {label ... on TextMetadataEntry {text} "
    "... on FloatMetadataEntry {floatValue} ... on IntMetadataEntry {intValue} ... on MarkdownMetadataEntry {mdStr}}}"
)
NOT_IN_A_RUN = {"canary", "night"}
"""Assets that `care status` does not show, because they are materialised at other times, like experiments."""


@pytest.fixture
def folder(tmp_path):
    """Create a workspace of two test sets; one judge scores only the first."""
    folder = make(tmp_path / "ws", n=20)
    write_items(folder, 24, name="two")
    write_testset(folder, "two")
    write_judge(folder, "length", testsets="[one]")
    return folder


@contextmanager
def graphql(folder, source=None):
    """Yield the address of Dagster's GraphQL for a workspace, with this source tree or a copy."""
    words = ["orchestration.webserver", "-m", "orchestration.definitions", "-h", "127.0.0.1", "-p"]
    home = str(dagster_home(load_workspace(folder)))
    log = folder.parent / "webserver.log"
    with dagster_webserver(words, log, source, DAGSTER_HOME=home, CARE_WORKSPACE=str(folder)) as ui:
        yield f"{ui}/graphql"


def asked(address: str, query: str, **variables: object):
    answer = httpx.post(address, json={"query": query, "variables": variables}, timeout=120).json()
    assert "errors" not in answer, answer
    return answer["data"]


def metadata(address: str, asset: str) -> dict[str, object]:
    """Return the metadata of an asset's latest materialisation, as the UI shows it."""
    key = {"path": [asset]}
    (latest,) = asked(address, NODE % METADATA, key=key)["assetNodeOrError"]["assetMaterializations"]
    values = ("text", "floatValue", "intValue", "mdStr")
    return {e["label"]: next((e[v] for v in values if v in e), None) for e in latest["metadataEntries"]}


def shown(address: str) -> set[tuple[str, str | None]]:
    """Return all partitions that Dagster's UI shows as stale or missing."""
    ask = partial(asked, address)
    found: set[tuple[str, str | None]] = set()
    for node in ask(NODES)["assetNodes"]:
        key = {"path": node["assetKey"]["path"]}
        name = key["path"][-1]
        if node["groupName"] == "experiments" or name in NOT_IN_A_RUN:
            continue
        partitions: list[str | None] = [None]
        if node["isPartitioned"]:
            partitions = ask(NODE % "partitionKeys", key=key)["assetNodeOrError"]["partitionKeys"]
            reported = ask(STATUS, key=key, partitions=partitions)["assetNodeOrError"]["staleStatusByPartition"]
        else:
            reported = [ask(NODE % "staleStatus", key=key)["assetNodeOrError"]["staleStatus"]]
        found |= {(name, partition) for partition, state in zip(partitions, reported, strict=True) if state != "FRESH"}
    return found


def ours(folder) -> set[tuple[str, str | None]]:
    return {*find_stale(load_workspace(folder))}


def test_dagster_and_care_name_the_same_stale_partitions(folder):
    with graphql(folder) as address:
        follow_changes(folder, address)
        assert metadata(address, "judge_inference")["dollars"] == 0.0
        assert metadata(address, "moments")["ran_on"] == "this process"
        report = metadata(address, "report")
        assert report["built_because"]
        assert report["state"] == current_verdicts(load_workspace(folder))["two"].state
        workspace = load_workspace(folder)
        with workspace_instance(workspace) as instance:
            before = instance.get_runs_count()
            assert delete_old_runs(workspace, instance, days=-1) > 0
            assert instance.get_runs_count() < before
            assert delete_old_runs(workspace, instance, days=-1) == 0, "once a day"
            instance.daemon_cursor_storage.set_cursor_values({f"care/old_runs_deleted {workspace.root}": "2026-01-01"})
            assert delete_old_runs(workspace, instance, days=-1) == 0, "the others hold a current version"
        assert shown(address) == ours(folder) == set(), "old runs are deleted"
        assert run(folder).materialised == []


def follow_changes(folder, address):
    assert not run(folder).failures
    assert shown(address) == ours(folder) == set(), "a first run"
    assert run(folder).materialised == []
    assert shown(address) == set(), "nothing has changed"

    write_items(folder, 20, edited=3)
    outcome = run(folder)
    assert {p for a, p in outcome.materialised if a == "scores"} == {
        f"{judge}|one" for judge in load_workspace(folder).judges
    }
    assert shown(address) == ours(folder) == set(), "an item of one test set has changed"

    text = (folder / "two.csv").read_text()
    (folder / "two.csv").write_text(text.replace(",4\n", ",0\n", 1))
    assert not run(folder).failures
    assert shown(address) == ours(folder) == set(), "a label has changed"

    write_judge(folder, "readability", testsets="[two]")
    run(folder, selection="key:items", testset="one")  # so that Dagster knows the judge
    assert ("judge_inference", "readability") in ours(folder)
    assert {key for key in shown(address) if key[0] == "judge_inference"} == {("judge_inference", "readability")}
    assert not run(folder).failures
    assert shown(address) == ours(folder) == set(), "a judge has come"


def test_dagster_and_care_name_the_same_stale_partitions_after_the_code_changed(folder, tmp_path):
    assert not run(folder).failures
    source = tmp_path / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (source / "assets" / "results" / "evaluation.py").open("a") as module:
        module.write("\nCHANGED = True\n")
    asked = (
        "import json, pathlib; from orchestration.plan import find_stale; "
        "from orchestration.workspace import load_workspace; "
        f"print(json.dumps([*find_stale(load_workspace(pathlib.Path({str(folder)!r})))]))"
    )
    done = subprocess.run([sys.executable, "-c", asked], cwd=source, capture_output=True, text=True, check=True)
    stale = {(asset, partition) for asset, partition in json.loads(done.stdout.splitlines()[-1])}
    assert {("evaluation", "one"), ("evaluation", "two")} <= stale
    with graphql(folder, source) as address:
        assert shown(address) == stale
