"""Command ``care history``, which prints the duration and the cost of each day's runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestration.cli.output import Json, Root, console, show

if TYPE_CHECKING:
    from assets.workspace import Workspace

_SHOWN = timedelta(days=30)
_PAID = ("questions", "tokens_in", "tokens_out", "repeated", "dollars")


def history(workspace: Root = Path(), json: Json = False) -> None:
    """Show the steps, their duration, and the judges' questions, tokens and cost on each of the last 30 days (UTC)."""
    from orchestration.stores import read_workspace

    loaded = read_workspace(workspace)
    paid = _bills_by_day(loaded)
    nothing: dict[str, Any] = dict.fromkeys(_PAID)
    rows = [{"day": day} | steps | paid.get(day, nothing) for day, steps in _steps_by_day(loaded).items()]
    if rows or json:
        show(rows, "Steps and costs by day (UTC)", as_json=json)
    else:
        console.print("nothing has run yet; start with `care run`")


def _steps_by_day(loaded: Workspace) -> dict[str, dict[str, Any]]:
    import dagster as dg

    from orchestration.instance import workspace_instance

    status, days = dg.DagsterRunStatus, dict[str, dict[str, Any]]()
    ended = [status.SUCCESS, status.FAILURE, status.CANCELED]
    wanted = dg.RunsFilter(updated_after=datetime.now(UTC) - _SHOWN, statuses=ended)
    with workspace_instance(loaded) as instance:
        for record in instance.get_run_records(wanted):
            for step in instance.get_run_step_stats(record.dagster_run.run_id):
                if step.start_time and step.end_time and loaded.mount.asset(step.step_key) is not None:
                    date = f"{datetime.fromtimestamp(step.start_time, UTC):%F}"
                    day = days.setdefault(date, {"steps": 0, "failed": 0, "seconds": 0.0})
                    day["steps"] += 1
                    day["failed"] += step.status is None or step.status.value != "SUCCESS"
                    day["seconds"] += step.end_time - step.start_time
    return dict(sorted(days.items(), reverse=True))


def _bills_by_day(loaded: Workspace) -> dict[str, dict[str, Any]]:
    if not loaded.warehouse.usable():
        return {}
    sums = ", ".join(f"sum({name})" for name in _PAID)
    with loaded.warehouse.reader() as connection:
        found = connection.execute(f"SELECT run_date::VARCHAR, {sums} FROM bills GROUP BY run_date").fetchall()
    return {day: dict(zip(_PAID, values, strict=True)) for day, *values in found}
