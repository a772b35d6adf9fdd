"""Command ``care history``, which prints the duration of each day's runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestration.cli.output import Json, Root, console, show

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from orchestration.timings import Step

_SHOWN = timedelta(days=30)
_PAID = ("questions", "tokens_in", "tokens_out", "repeated", "dollars")


def history(
    workspace: Root = Path(),
    json: Json = False,
) -> None:
    """Show duration, steps, questions, tokens and dollars for each day (UTC) of the last 30 days."""
    from orchestration.instance import workspace_instance
    from orchestration.stores import read_workspace
    from orchestration.timings import steps_by_day

    loaded = read_workspace(workspace)
    with workspace_instance(loaded) as instance:
        days = steps_by_day(loaded, instance, datetime.now(UTC) - _SHOWN)
    rows = _with_bills(loaded, days)
    if rows or json:
        show(rows, "Runs by the day (UTC) on which they began", as_json=json)
    else:
        console.print("nothing has run yet; start with `care run`")


def _with_bills(loaded: Workspace, days: Mapping[str, Sequence[Step]]) -> list[dict[str, Any]]:
    """Return a row for each day, the latest first, with the bills of judges."""
    paid: dict[str, dict[str, Any]] = {}
    if loaded.warehouse.usable():
        sums = ", ".join(f"sum({name})" for name in _PAID)
        with loaded.warehouse.reader() as connection:
            found = connection.execute(f"SELECT run_date::VARCHAR, {sums} FROM bills GROUP BY run_date").fetchall()
        paid = {day: dict(zip(_PAID, values, strict=True)) for day, *values in found}
    rows = list[dict[str, Any]]()
    for day, steps in sorted(days.items(), reverse=True):
        rows.append({"day": day, "steps": len(steps), "failed": sum(not step.succeeded for step in steps)})
        rows[-1] |= {"seconds": sum(step.seconds for step in steps), **paid.get(day, dict.fromkeys(_PAID))}
    return rows
