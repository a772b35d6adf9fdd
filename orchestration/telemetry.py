"""Traces and metrics of nights by OpenTelemetry, where its standard environment variables ask for them; else nothing.

All of it is read when it is sent: steps from Dagster's record of runs, what judges took from their bills, what is stale
and how old verdicts are from the workspace. So nothing is kept here, and what a collector missed is sent again.
"""

from __future__ import annotations

import logging
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
from orchestration.launches import CARE_RUN, LAUNCHED_BY, ORDER, partitions_of
from orchestration.timings import Step, ended_runs, night_of, stages_of_last_night, steps_of

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from assets.workspace import Workspace

_COUNTED = "questions requests repeated refused tokens_in tokens_cached tokens_out tokens_reasoning dollars".split()
_ASKED = ["judge", "testset", "what", "seconds", "scored", *_COUNTED]
"""Columns of a bill that are metrics, and those of ``askings`` that a span has."""

_UNITS = {"dollars": "USD", "p50_ms": "ms", "p95_ms": "ms"}


class TelemetryError(CareError):
    """What was measured could not be sent."""


def wanted(signal: str) -> bool:
    """Whether the environment names where ``traces`` or ``metrics`` go, and does not forbid them."""
    read, kind = os.environ.get, signal.upper()
    forbids = read("OTEL_SDK_DISABLED", "").lower() == "true" or read(f"OTEL_{kind}_EXPORTER", "otlp") == "none"
    return bool(read("OTEL_EXPORTER_OTLP_ENDPOINT") or read(f"OTEL_EXPORTER_OTLP_{kind}_ENDPOINT")) and not forbids


def send(workspace: Workspace, instance: dg.DagsterInstance, since: datetime, *, of_commands: bool) -> datetime:
    """Send traces of the runs that ended since, of ``care run`` or of the daemon, and metrics of how things stand now.

    Returns since when the next ones are to be sent. Raises ``TelemetryError`` where the packages are not installed, or
    the collector did not take what was sent.
    """
    if not find_spec("opentelemetry.exporter.otlp.proto.http"):
        raise TelemetryError(f"OpenTelemetry is asked for and not installed; {how_to_install('telemetry')}")
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # what fails is told below, in one sentence
    ended = ended_runs(instance, since)
    own = [run for run in ended if (run.dagster_run.tags.get(LAUNCHED_BY) == CARE_RUN) == of_commands]
    results = {
        "traces": _send_traces(workspace, instance, own) if wanted("traces") else None,
        "metrics": _send_metrics(workspace, instance) if wanted("metrics") else None,
    }
    for signal, result in results.items():
        if result is not None and result.name != "SUCCESS":
            raise TelemetryError(
                f"the collector did not take the {signal}; see whether it runs where OTEL_EXPORTER_OTLP_ENDPOINT says"
            )
    return max([since, *(run.update_timestamp for run in ended)])


def _resource(workspace: Workspace) -> Resource:
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    ours = Resource({"service.name": "care", "care.workspace": workspace.root.name})
    return ours.merge(OTELResourceDetector().detect())


def _send_traces(workspace: Workspace, instance: dg.DagsterInstance, records: Sequence[dg.RunRecord]) -> Any:
    """Send one trace for each night of these runs, with the same id whoever sends a part of it, and when."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.trace import StatusCode, set_span_in_context

    class OfNight(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            return int(content_hash([str(workspace.root), night]), 16)

    kept = InMemorySpanExporter()
    for night in sorted({night_of(record.start_time) for record in records if record.start_time}):
        provider = TracerProvider(resource=_resource(workspace), id_generator=OfNight(), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(kept))
        tracer, above = provider.get_tracer("care"), list[Any]()
        for depth, name, begins, ends, facts in _spans(workspace, instance, night, records):
            context = set_span_in_context(above[depth - 1]) if depth else None
            del above[depth:]
            known = {f"care.{key}": value for key, value in facts.items() if value is not None}
            above.append(tracer.start_span(name, context, attributes=known, start_time=round(begins * 1e9)))
            if why := facts.get("error"):
                above[-1].set_status(StatusCode.ERROR, why)
            above[-1].end(round(ends * 1e9))
    spans = kept.get_finished_spans()
    return OTLPSpanExporter().export(spans) if spans else None


def _spans(
    workspace: Workspace, instance: dg.DagsterInstance, night: str, records: Sequence[dg.RunRecord]
) -> Iterator[tuple[int, str, float, float, dict[str, Any]]]:
    """A night, its runs, their steps and what judges were asked in these: depth, name, begin, end (seconds), facts."""
    runs = [(r, r.start_time, r.end_time) for r in records if r.start_time and r.end_time]
    runs = [(record, begins, ends) for record, begins, ends in runs if night_of(begins) == night]
    yield 0, "night", min(b for _, b, _ in runs), max(e for _, _, e in runs), {"night": night, "runs": len(runs)}
    for record, _, ends in runs:
        run, asked_for = record.dagster_run, record.create_timestamp.timestamp()
        yield 1, "run", asked_for, ends, {"run_id": run.run_id, "status": run.status.value}
        failed = {
            workspace.mount.asset(str(event.step_key)): failure_message(event)
            for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
            if (event := entry.dagster_event) is not None
        }
        for step in steps_of(workspace, instance, run):
            facts = {"asset": step.asset, "partition": step.partition, "attempts": step.attempts}
            yield 2, step.asset, step.begins, step.ends, {**facts, "error": failed.get(step.asset)}
            for began, asked in _askings(workspace, step, partitions_of(run, step.asset, instance, workspace.mount)):
                yield 3, f"asking {asked['judge']}", began, began + asked["seconds"], asked


def _askings(workspace: Workspace, step: Step, judges: Sequence[str | None]) -> Iterator[tuple[float, dict[str, Any]]]:
    """When and what judges were asked while a step of theirs was at work."""
    if step.asset not in ("judge_inference", "canary") or not workspace.warehouse.usable():
        return
    with workspace.warehouse.reader() as connection:
        rows = connection.execute(
            f"SELECT epoch(began), {', '.join(_ASKED)} FROM askings "
            "WHERE judge IN (SELECT unnest($1)) AND epoch(began) BETWEEN $2 AND $3",
            [[*judges], step.begins, step.ends],
        ).fetchall()
    for began, *row in rows:
        yield began, dict(zip(_ASKED, row, strict=True))


def _send_metrics(workspace: Workspace, instance: dg.DagsterInstance) -> Any:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], _resource(workspace), shutdown_on_exit=False).get_meter("care")
    for name, unit, value, labels in _measured(workspace, instance):
        meter.create_gauge(f"care.{name}", unit).set(value, labels)
    data = reader.get_metrics_data()
    return None if data is None else OTLPMetricExporter().export(data)


def _measured(workspace: Workspace, instance: dg.DagsterInstance) -> Iterator[tuple[str, str, float, dict[str, str]]]:
    """Each metric: its name, unit, value and labels."""
    from assets.judging.bill import bills
    from assets.report.verdicts import current_verdicts
    from orchestration.plan import all_outdated

    for row in stages_of_last_night(workspace, instance)[1]:
        yield "stage.duration", "s", row["seconds"], {"stage": row["stage"]}
    for row in bills(workspace):
        for name in (*_COUNTED, "p50_ms", "p95_ms"):
            if (value := getattr(row, name)) is not None:
                yield f"judge.{name}", _UNITS.get(name, "1"), value, {"judge": row.judge, "testset": row.testset}
    stale = Counter(asset for asset, _ in all_outdated(workspace))
    for asset in ORDER:
        yield "stale", "1", stale[asset], {"asset": asset}
    for testset, verdict in current_verdicts(workspace).items():
        if verdict.made_at is not None:
            age = datetime.now(UTC) - datetime.fromisoformat(verdict.made_at)
            yield "verdict.age", "s", age.total_seconds(), {"testset": testset, "state": verdict.state}
