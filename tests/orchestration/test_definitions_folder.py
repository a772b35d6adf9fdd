"""Tests that published scores load through Dagster's IO manager."""

import dagster as dg
import pytest

from care_ops.errors import InputError
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.resources import PublishedScores
from orchestration.workspace import load_workspace
from tests.support.workspaces import query


def test_published_scores_load_through_dagsters_io_manager(workspace_after_run):
    defs = build_defs(workspace_after_run)
    with workspace_instance(load_workspace(workspace_after_run)) as instance:
        scores = defs.load_asset_value("review", instance=instance, partition_key="one")
    names = ["item_id", "aggregator", "estimate", "sd", "p_quality", "fit_id"]
    assert scores.column_names == names
    assert scores.to_pylist() == [
        dict(zip(names, row, strict=True))
        for row in query(workspace_after_run, f"SELECT {', '.join(names)} FROM latest_aggregates ORDER BY ALL")
    ]
    with pytest.raises(InputError, match="use another IO manager"):
        PublishedScores(folder=str(workspace_after_run)).handle_output(dg.build_output_context(asset_key="theirs"), 1)
