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
    from orchestration.timings import Stage

_PAID = ("questions", "tokens_in", "tokens_out", "repeated", "dollars")


def history(
    workspace: Root = Path(),
    time: Annotated[
        bool,
        typer.Option("--time", help="Where the last night's time went, and what was slower than in the week before."),
    ] = False,
    days: Annotated[int, typer.Option(help="Days of which to show the nights.", min=1)] = 30,
    json: Json = False,
) -> None:
    """Show what each night took (a day in UTC): time, steps, questions, tokens and dollars."""
    from orchestration.instance import workspace_instance
    from orchestration.stores import workspace_to_look_at
    from orchestration.timings import last_night_and_week

    loaded = workspace_to_look_at(workspace)
    with workspace_instance(loaded) as instance:
        if time:
            _print_stages(*last_night_and_week(loaded, instance), as_json=json)
            return
        rows = _nights(loaded, instance, days)
    if not rows and not json:
        console.print(f"no night in the last {days} days; `care run` is one")
        return
    show(rows, "Nights, by the day (UTC) on which their runs began", as_json=json)


def _nights(loaded: Workspace, instance: dg.DagsterInstance, days: int) -> list[dict[str, Any]]:
    """A row for each night, the latest first; what judges were paid is read from the bills."""
    from orchestration.timings import nights

    since = datetime.now(UTC) - timedelta(days=days)
    paid = _paid(loaded)
    rows = list[dict[str, Any]]()
    for night, steps in reversed(nights(loaded, instance, since).items()):
        took = sum(step.ends - step.begins for step in steps)
        failed = sum(not step.succeeded for step in steps)
        rows.append({"night": night, "steps": len(steps), "failed": failed, "seconds": round(took, 1)})
        rows[-1] |= paid.get(night, dict.fromkeys(_PAID))
    return rows


def _paid(loaded: Workspace) -> dict[str, dict[str, Any]]:
    if not loaded.warehouse.usable():
        return {}
    sums = ", ".join(f"sum({name})" for name in _PAID)
    with loaded.warehouse.reader() as connection:
        rows = connection.execute(f"SELECT night::VARCHAR, {sums} FROM bills GROUP BY night").fetchall()
    return {night: dict(zip(_PAID, values, strict=True)) for night, *values in rows}


def _print_stages(night: str, stages: list[Stage], *, as_json: bool) -> None:
    whole = sum(one.seconds for one in stages)
    rows = [
        {
            "stage": one.stage,
            "steps": one.steps,
            "seconds": round(one.seconds, 2),
            "share": f"{one.seconds / whole:.0%}" if whole else "",
            "longest": one.longest,
            "week before": None if one.last_week is None else round(one.last_week, 2),
            "slower": "slower" if one.slower else "",
        }
        for one in stages
    ]
    if as_json or not rows:
        show(rows, "", as_json=True) if as_json else console.print("there has been no night; `care run` is one")
        return
    show(rows, f"The night of {night} (UTC): {duration(whole)}; the week before is its median", as_json=False)
    slower = [one for one in stages if one.slower]
    for one in slower:
        console.print(f"{one.stage} took {duration(one.seconds)}, longer than in any night of the week before")
    if not slower:
        console.print("no stage was slower than in the week before")
