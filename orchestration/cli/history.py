"""``care history``: what the nights of a workspace took, and where their time went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import Json, Root, console, show
from orchestration.cli.run import duration

if TYPE_CHECKING:
    import dagster as dg

    from assets.workspace import Workspace

_SHOWN = timedelta(days=30)
_PAID = ("questions", "tokens_in", "tokens_out", "repeated", "dollars")


def history(
    workspace: Root = Path(),
    time: Annotated[
        bool,
        typer.Option("--time", help="Time of the last day's stages, and which were slower than before."),
    ] = False,
    json: Json = False,
) -> None:
    """Show for each day of a month (UTC) time, steps, questions, tokens and dollars."""
    from orchestration.instance import workspace_instance
    from orchestration.stores import read_workspace
    from orchestration.timings import stages_of_last_night

    loaded, title = read_workspace(workspace), "Nights, by the day (UTC) on which their runs began"
    with workspace_instance(loaded) as instance:
        if time:
            night, rows = stages_of_last_night(loaded, instance)
            title = f"The night of {night} (UTC) took {duration(sum(row['seconds'] for row in rows))}; in seconds"
            for row in () if json else rows:
                row["slower"] = "slower" if row["slower"] else ""
        else:
            rows = _nights(loaded, instance)
    if rows or json:
        show(rows, title, as_json=json)
    else:
        console.print("there has been no night; `care run` is one")


def _nights(loaded: Workspace, instance: dg.DagsterInstance) -> list[dict[str, Any]]:
    """Return a row for each day, the latest first, with the bills of judges."""
    from orchestration.timings import steps_by_day

    paid: dict[str, dict[str, Any]] = {}
    if loaded.warehouse.usable():
        sums = ", ".join(f"sum({name})" for name in _PAID)
        with loaded.warehouse.reader() as connection:
            found = connection.execute(f"SELECT night::VARCHAR, {sums} FROM bills GROUP BY night").fetchall()
        paid = {night: dict(zip(_PAID, values, strict=True)) for night, *values in found}
    rows = list[dict[str, Any]]()
    for night, steps in reversed(steps_by_day(loaded, instance, datetime.now(UTC) - _SHOWN).items()):
        rows.append({"night": night, "steps": len(steps), "failed": sum(not step.succeeded for step in steps)})
        rows[-1] |= {"seconds": sum(step.seconds for step in steps), **paid.get(night, dict.fromkeys(_PAID))}
    return rows
