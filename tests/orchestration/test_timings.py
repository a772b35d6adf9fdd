"""Tests that times of runs equal Dagster's record, and costs equal the server's count."""

from __future__ import annotations

import dagster as dg
import pytest

from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.endpoints import PRICE_IN, PRICE_OUT, Vendor, number_of
from tests.support.workspaces import care, care_json, make


@pytest.fixture
def vendor():
    with Vendor(lambda handler, body: handler.answer(str(number_of(body) % 9))) as server:
        yield server


def with_paid_judge(folder, vendor):
    make(folder, ("length", "conciseness", "redundancy"))
    (folder / "judges" / "paid.yaml").write_text(
        f"engine: {{kind: openai, base_url: '{vendor.url}', model: judge-1, template: quality, scoring: text, "
        f"api_key_env: null, price_in: {PRICE_IN}, price_out: {PRICE_OUT}}}\n"
    )
    return folder


def seconds_of_steps(folder):
    """Return the seconds of all steps by Dagster's events."""
    kinds, seconds = dg.DagsterEventType, 0.0
    with workspace_instance(load_workspace(folder)) as instance:
        for record in instance.get_run_records():
            for entry in instance.all_logs(record.dagster_run.run_id):
                kind = None if entry.dagster_event is None else entry.dagster_event.event_type
                seconds += entry.timestamp * ((kind is kinds.STEP_SUCCESS) - (kind is kinds.STEP_START))
    return seconds


def test_history_shows_dagsters_durations_and_the_servers_costs(tmp_path, vendor):
    folder = with_paid_judge(tmp_path / "ws", vendor)
    care(folder, "run", "--select", "group:inputs or group:judging")
    (day,) = care_json(folder, "history")
    assert (day["failed"], day["tokens_in"], day["repeated"]) == (0, vendor.tokens[0], 0)
    assert day["seconds"] == pytest.approx(seconds_of_steps(folder), abs=1e-4)
    assert day["dollars"] == pytest.approx(vendor.dollars)
