"""Traces and metrics of nights by OpenTelemetry, where its standard environment variables ask for them; else nothing.

All of it is read when it is sent: steps from Dagster's record of runs, what judges took from their bills, what is stale
and how old verdicts are from the workspace. So nothing is kept here, and what a collector missed is sent again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.hashing import content_hash
from care_ops.errors import CareError, how_to_install
from orchestration.alerts import failure_message
from orchestration.launches import ORDER, partitions_of
from orchestration.timings import Step, as_utc, last_night_and_week, night_of, steps_of

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

    from assets.workspace import Workspace

_ENDPOINT = "OTEL_EXPORTER_OTLP_{}ENDPOINT"

_ASKED = (
    "judge testset what began seconds scored questions requests repeated refused tokens_in tokens_cached tokens_out "
    "tokens_reasoning dollars"
).split()
"""Columns of ``askings`` that a span has."""

_BILLED = {
    "questions": "{question}",
    "requests": "{request}",
    "repeated": "{request}",
    "refused": "{request}",
    "tokens_in": "{token}",
    "tokens_cached": "{token}",
    "tokens_out": "{token}",
    "tokens_reasoning": "{token}",
    "dollars": "USD",
    "p50_ms": "ms",
    "p95_ms": "ms",
}
"""Columns of the bill of the last night, with their units; each is a metric for each judge and test set."""


class TelemetryError(CareError):
    """What was measured could not be sent."""


def wanted(signal: str) -> bool:
    """Whether the environment names where ``traces`` or ``metrics`` go, and does not forbid them."""
    forbids = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    forbids = forbids or os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp") == "none"
    named = any(os.environ.get(_ENDPOINT.format(part)) for part in ("", f"{signal.upper()}_"))
    return named and not forbids


def send(workspace: Workspace, instance: dg.DagsterInstance, records: Sequence[dg.RunRecord]) -> None:
    """Send the traces of runs that have ended, and the metrics of how the workspace stands now.

    Raises ``TelemetryError`` where the packages are not installed, or the collector did not take what was sent.
    """
    if not find_spec("opentelemetry.exporter.otlp.proto.http"):
        raise TelemetryError(f"OpenTelemetry is asked for and not installed; {how_to_install('telemetry')}")
    if wanted("traces"):
        _send_traces(workspace, instance, records)
    if wanted("metrics"):
        _send_metrics(workspace, instance)


def _must_be_taken(result: Any, signal: str) -> None:
    if result.name != "SUCCESS":
        raise TelemetryError(
            f"the collector did not take the {signal} of this night; see {_ENDPOINT.format('')} and whether it runs"
        )


def _resource(workspace: Workspace) -> Resource:
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    ours = Resource({"service.name": "care", "care.workspace": workspace.root.name})
    return ours.merge(OTELResourceDetector().detect())


def _send_traces(workspace: Workspace, instance: dg.DagsterInstance, records: Sequence[dg.RunRecord]) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    by_night: dict[str, list[dg.RunRecord]] = {}
    for record in records:
        if record.start_time and record.end_time and steps_of(workspace, instance, record.dagster_run):
            by_night.setdefault(night_of(record.start_time), []).append(record)
    kept = InMemorySpanExporter()
    for night, runs in by_night.items():
        provider = _provider(workspace, night)
        provider.add_span_processor(SimpleSpanProcessor(kept))
        _trace(provider, workspace, instance, night, runs)
    spans = kept.get_finished_spans()
    if spans:
        _must_be_taken(OTLPSpanExporter().export(spans), "traces")


def _provider(workspace: Workspace, night: str) -> TracerProvider:
    """What makes the spans of one night, which have one trace whoever sends them, and when."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class OfNight(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            return int(content_hash([str(workspace.root), night]), 16)

    return TracerProvider(resource=_resource(workspace), id_generator=OfNight(), shutdown_on_exit=False)


def _trace(
    provider: TracerProvider,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    night: str,
    runs: Sequence[dg.RunRecord],
) -> None:
    """Spans of a night: of its runs, in each of these its steps, and in each step of a judge what it was asked."""
    from opentelemetry.trace import StatusCode, set_span_in_context

    tracer = provider.get_tracer("care")

    def span(name: str, begins: float, ends: float, above: Span | None, facts: dict[str, Any]) -> Span:
        context = None if above is None else set_span_in_context(above)
        known = {f"care.{key}": value for key, value in facts.items() if value is not None}
        made = tracer.start_span(name, context, attributes=known, start_time=round(begins * 1e9))
        if why := facts.get("error"):
            made.set_status(StatusCode.ERROR, why)
        made.end(round(ends * 1e9))
        return made

    begun, ended = min(r.start_time or 0.0 for r in runs), max(r.end_time or 0.0 for r in runs)
    whole = span("night", begun, ended, None, {"night": night, "runs": len(runs)})
    for record in runs:
        run = record.dagster_run
        facts = {"run_id": run.run_id, "status": run.status.value, "waited_s": _waited(record)}
        of_run = span("run", record.start_time or 0.0, record.end_time or 0.0, whole, facts)
        failed = {
            str(event.step_key): failure_message(event)
            for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
            if (event := entry.dagster_event) is not None
        }
        for step in steps_of(workspace, instance, run):
            why = failed.get(workspace.mount.name(step.asset))
            facts = {"asset": step.asset, "partition": step.partition, "attempts": step.attempts, "error": why}
            of_step = span(step.asset, step.begins, step.ends, of_run, facts)
            for asked in _askings(workspace, step, partitions_of(run, step.asset, instance, workspace.mount)):
                began = asked.pop("began")
                span(f"asking {asked['judge']}", began, began + asked["seconds"], of_step, asked)


def _waited(record: dg.RunRecord) -> float:
    """Seconds from when a run was asked for until it began."""
    return (record.start_time or 0.0) - as_utc(record.create_timestamp).timestamp()


def _askings(workspace: Workspace, step: Step, judges: Sequence[str | None]) -> Iterator[dict[str, Any]]:
    """What judges were asked while a step of theirs was at work."""
    if step.asset not in ("judge_inference", "canary") or not workspace.warehouse.usable():
        return
    columns = ", ".join(f"epoch({name})" if name == "began" else name for name in _ASKED)
    with workspace.warehouse.reader() as connection:
        rows = connection.execute(
            f"SELECT {columns} FROM askings WHERE judge IN (SELECT unnest($1)) AND epoch(began) BETWEEN $2 AND $3",
            [[*judges], step.begins, step.ends],
        ).fetchall()
    for row in rows:
        yield dict(zip(_ASKED, row, strict=True))


def _send_metrics(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], _resource(workspace), shutdown_on_exit=False)
    meter = provider.get_meter("care")
    for name, unit, value, labels in _measured(workspace, instance):
        meter.create_gauge(f"care.{name}", unit).set(value, labels)
    data = reader.get_metrics_data()
    if data is not None:
        _must_be_taken(OTLPMetricExporter().export(data), "metrics")


def _measured(workspace: Workspace, instance: dg.DagsterInstance) -> Iterator[tuple[str, str, float, dict[str, str]]]:
    """Each metric: its name, unit, value and labels."""
    from assets.judging.bill import bills
    from assets.report.verdicts import current_verdicts
    from orchestration.plan import all_outdated

    _, stages = last_night_and_week(workspace, instance)
    for stage in stages:
        yield "stage.duration", "s", stage.seconds, {"stage": stage.stage}
    for row in bills(workspace):
        for name, unit in _BILLED.items():
            if (value := getattr(row, name)) is not None:
                yield f"judge.{name}", unit, value, {"judge": row.judge, "testset": row.testset}
    stale = Counter(asset for asset, _ in all_outdated(workspace))
    for asset in ORDER:
        yield "stale", "{partition}", stale[asset], {"asset": asset}
    for testset, verdict in current_verdicts(workspace).items():
        if verdict.made_at is not None:
            age = datetime.now(UTC) - datetime.fromisoformat(verdict.made_at)
            yield "verdict.age", "s", age.total_seconds(), {"testset": testset, "state": verdict.state}
