"""Times of runs equal Dagster's record, and costs equal the server's count."""

from __future__ import annotations

import dagster as dg
import pytest

from orchestration.instance import workspace_instance
from orchestration.timings import BETWEEN, Step, stages
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


def events_of(folder):
    """Dagster's own events of steps: name and partition, when it began, when it ended."""
    kinds, found = dg.DagsterEventType, []
    with workspace_instance(load_workspace(folder)) as instance:
        for record in instance.get_run_records():
            partition = record.dagster_run.tags.get("dagster/partition") or record.dagster_run.tags.get(
                "dagster/asset_partition_range_start", ""
            )
            for entry in instance.all_logs(record.dagster_run.run_id):
                event = entry.dagster_event
                if event is not None and event.event_type in (kinds.STEP_START, kinds.STEP_SUCCESS, kinds.STEP_FAILURE):
                    found.append((event.step_key, partition, event.event_type, entry.timestamp))
    began = {(step, part): at for step, part, kind, at in found if kind == kinds.STEP_START}
    ended = {(step, part): at for step, part, kind, at in found if kind != kinds.STEP_START}
    return {key: (began[key], ended[key]) for key in began}


def test_the_times_of_a_run_are_dagsters_record_and_its_costs_the_servers(tmp_path, vendor):
    folder = with_paid_judge(tmp_path / "ws", vendor)
    care(folder, "run", "--select", "group:inputs or group:judging")
    took = {row["stage"]: row["seconds"] for row in care_json(folder, "history", "--time")}
    recorded = events_of(folder)
    assert took.keys() - {BETWEEN} == {step for step, _ in recorded} >= {"judge_inference", "scores"}
    for stage in took.keys() - {BETWEEN}:
        seconds = sum(end - begin for (step, _), (begin, end) in recorded.items() if step == stage)
        assert took[stage] == pytest.approx(seconds, abs=1e-6)
    (day,) = care_json(folder, "history")
    assert (day["failed"], day["tokens_in"], day["repeated"]) == (0, vendor.tokens[0], 0)
    assert day["dollars"] == pytest.approx(vendor.dollars)


def test_seconds_are_summed_by_stage_and_between_stages():
    steps = [
        Step("items", "one", 0.0, 1.0, True),
        Step("panel", "one", 3.0, 9.0, True),
        Step("items", "two", 11.0, 14.0, True),
    ]
    assert stages(steps) == [
        {"stage": "panel", "seconds": 6.0, "longest": "one"},
        {"stage": "items", "seconds": 4.0, "longest": "two"},
        {"stage": BETWEEN, "seconds": 4.0, "longest": ""},
    ]
