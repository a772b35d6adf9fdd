"""Traces and metrics as a collector gets them, and times of nights, by Dagster's events and a server's books."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime

import dagster as dg
import pytest

from assets.mount import ALONE
from orchestration.definitions import build_defs
from orchestration.instance import follow_partitions, workspace_instance
from orchestration.sensors import build_sensors
from orchestration.timings import BETWEEN, Step, stages
from orchestration.workspace import Settings, load_workspace
from tests.support.collector import Collector, named
from tests.support.endpoints import PRICE_IN, PRICE_OUT, Vendor, number_of
from tests.support.workspaces import care, care_json, make, query


@pytest.fixture
def collector(monkeypatch):
    with Collector() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url.removesuffix("/v1"))
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=tests")
        yield server


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


def test_a_nights_trace_is_dagsters_record_and_the_servers_books(tmp_path, collector, vendor):
    folder = with_paid_judge(tmp_path / "ws", vendor)
    care(folder, "run")
    (night,) = [span for span in collector.spans if span.name == "night"]
    assert {span.trace_id for span in collector.spans} == {night.trace_id}
    assert collector.resources[0]["deployment.environment"] == "tests"
    assert collector.resources[0]["service.name"] == "care"
    runs = {span.span_id for span in collector.spans if span.name == "run"}
    assert {span.parent_span_id for span in collector.spans if span.name == "run"} == {night.span_id}
    steps = [span for span in collector.spans if "care.asset" in named(span.attributes)]
    assert {span.parent_span_id for span in steps} == runs
    told = {
        (span.name, named(span.attributes)["care.partition"]): (span.start_time_unix_nano, span.end_time_unix_nano)
        for span in steps
    }
    recorded = events_of(folder)
    assert told.keys() == recorded.keys() >= {("judge_inference", "conciseness"), ("aggregates", "one")}
    for key, times in recorded.items():
        assert [at / 1e9 for at in told[key]] == pytest.approx(times, abs=1e-3), key
    judging = {span.span_id for span in steps if span.name == "judge_inference"}
    asked = [span for span in collector.spans if span.name == "asking paid"]
    assert {span.parent_span_id for span in asked} <= judging
    facts = [named(span.attributes) for span in asked]
    assert [sum(one[f"care.{name}"] for one in facts) for name in ("tokens_in", "tokens_out")] == vendor.tokens
    assert sum(one["care.requests"] for one in facts) == len(vendor.bodies)
    assert sum(one["care.dollars"] for one in facts) == pytest.approx(vendor.dollars)


def test_metrics_are_the_bill_what_is_stale_and_the_age_of_each_verdict(tmp_path, collector, vendor):
    folder = with_paid_judge(tmp_path / "ws", vendor)
    care(folder, "run")
    paid = frozenset({"judge": "paid", "testset": "one"}.items())
    assert collector.metrics["care.judge.tokens_in", paid] == vendor.tokens[0]
    assert collector.metrics["care.judge.dollars", paid] == pytest.approx(vendor.dollars)
    assert 0 < collector.metrics["care.judge.p50_ms", paid] <= collector.metrics["care.judge.p95_ms", paid]
    stale = {
        dict(labels)["asset"]: value for (name, labels), value in collector.metrics.items() if name == "care.stale"
    }
    assert stale["aggregates"] == 0 == sum(stale.values())
    ((state, age),) = [
        (dict(labels), v) for (name, labels), v in collector.metrics.items() if name == "care.verdict.age"
    ]
    ((made,),) = query(folder, "SELECT epoch(made_at) FROM verdicts")
    assert state["testset"] == "one"
    assert 0 <= age <= datetime.now().timestamp() - made
    took = {dict(x)["stage"]: v for (name, x), v in collector.metrics.items() if name == "care.stage.duration"}
    recorded = events_of(folder)
    for stage in took.keys() - {BETWEEN}:
        seconds = sum(end - begin for (step, _), (begin, end) in recorded.items() if step == stage)
        assert took[stage] == pytest.approx(seconds, abs=1e-6)
    shown = {row["stage"]: row["seconds"] for row in care_json(folder, "history", "--time")}
    assert shown == pytest.approx(took)
    (night,) = care_json(folder, "history")
    assert (night["failed"], night["tokens_in"], night["repeated"]) == (0, vendor.tokens[0], 0)
    assert night["dollars"] == pytest.approx(vendor.dollars)
    (folder / "testsets" / "one.yaml").write_text((folder / "testsets" / "one.yaml").read_text() + "cut: 5\n")
    collector.metrics.clear()
    with ticking(folder) as tick:
        tick()
    stale = {
        dict(labels)["asset"]: value for (name, labels), value in collector.metrics.items() if name == "care.stale"
    }
    assert sum(stale.values()) > 0, "what a change has made stale is counted by the daemon's next tick"


def test_a_collector_that_is_down_fails_no_night_and_is_told(tmp_path, collector):
    folder = make(tmp_path / "ws", ("length", "conciseness", "redundancy"))
    collector.takes = False
    assert "the collector did not take the traces" in " ".join(care(folder, "run").split())


@contextmanager
def ticking(folder):
    """The sensor of the daemon that sends what was measured, tick by tick with its own cursor."""
    sensors = {
        sensor.name: sensor
        for sensor in build_sensors(folder, ALONE, lambda: load_workspace(folder), Settings(), watch=False)
    }
    with workspace_instance(load_workspace(folder)) as instance:
        context = dg.build_sensor_context(instance)

        def tick():
            with context:
                return sensors["telemetry"](context).skip_message

        yield tick


def test_the_daemon_sends_each_run_once_and_again_what_was_not_taken(tmp_path, collector):
    folder = make(tmp_path / "ws", ("length", "conciseness", "redundancy"))
    workspace = load_workspace(folder)
    with workspace_instance(workspace) as instance:
        follow_partitions(workspace, instance)
        job = build_defs(folder, workspace).resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey("items")], partition_key="one"
        ).success
    with ticking(folder) as tick:
        collector.takes = False
        assert "did not take" in tick()
        collector.takes = True
        assert [tick(), tick()] == ["what was measured is sent"] * 2
    assert [span.name for span in collector.spans] == ["night", "run", "items"]


NOTHING = """
import sys
from orchestration.cli.app import main
try:
    main()
finally:
    assert not [name for name in sys.modules if name.startswith("opentelemetry")], "imported"
"""


def test_nothing_of_it_is_there_where_nobody_asks(tmp_path, monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    folder = make(tmp_path / "ws", ("length", "conciseness", "redundancy"))
    words = [sys.executable, "-c", NOTHING, "run", "--workspace", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = {sensor.name for sensor in build_defs(folder).sensors or ()}
    assert "telemetry" not in names
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert {sensor.name for sensor in build_defs(folder).sensors or ()} == {*names, "telemetry"}
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert "telemetry" not in {sensor.name for sensor in build_defs(folder).sensors or ()}


def night(**seconds):
    """A night in which these stages ran one after the other, with two seconds between them."""
    steps, now = [], 0.0
    for asset, took in seconds.items():
        steps.append(Step(asset, "one", now, now + took, True, 1))
        now += took + 2.0
    return steps


def test_a_stage_is_slower_if_no_night_of_the_week_before_took_as_long():
    week = [night(items=1.0, panel=10.0), night(items=2.0, panel=11.0), night(items=1.5, panel=30.0)]
    told = {row["stage"]: row for row in stages(night(items=8.0, panel=12.0, report=3.0), week)}
    assert [*told] == ["panel", "items", BETWEEN, "report"], "the longest first"
    assert [told[name]["slower"] for name in ("items", "panel", "report")] == [True, False, False]
    assert [told[name]["week before"] for name in ("items", "panel", "report")] == [1.5, 11.0, None]
    assert told[BETWEEN]["seconds"] == 4.0
    assert not any(row["slower"] for row in stages(week[0], [])), "there is nothing to be slower than"
