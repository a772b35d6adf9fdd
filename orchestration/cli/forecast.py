"""``care run --dry-run``: what bringing a workspace up to date would ask of its judges."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from orchestration.cli.output import console, show


def print_forecast(folder: Path, testset: str | None, judge: str | None, *, as_json: bool) -> None:
    """Print a row for each judge and test set that has something to ask, and their sum."""
    from assets.judging.forecast import Forecast, forecast
    from orchestration.stores import workspace_to_look_at

    workspace = workspace_to_look_at(folder)
    judges = [judge] if judge else sorted(workspace.judges)
    rows = forecast(workspace, judges, [testset] if testset else sorted(workspace.testsets))
    if as_json:
        show([asdict(row) for row in rows], "", as_json=True)
        return
    if not rows:
        console.print("every judge has scored every item: `care run` would ask nobody")
        return

    def printed(row: Forecast) -> dict[str, Any]:
        unmeasured = "" if row.measured or not row.tokens else "about "
        dollars = f"{unmeasured}{row.dollars:,.2f}" if row.dollars else "–"
        return {
            "judge": row.judge,
            "test set": row.testset,
            "items": row.items,
            "questions": row.questions,
            "tokens": f"{unmeasured}{row.tokens:,.0f}" if row.tokens else "–",
            "US $": "price unknown" if row.dollars is None else dollars,
            "time": "not measured yet" if row.seconds is None else duration(row.seconds),
            "note": row.failure or ("" if row.questions else "recorded scores: nobody is asked"),
        }

    show([printed(row) for row in rows], "What `care run` would ask", as_json=False)
    if not any(row.questions or row.failure for row in rows):
        console.print("all these scores are recorded: `care run` reads them and asks nobody")
        return
    known = [row.seconds for row in rows if row.seconds is not None]
    unpriced = sorted({row.judge for row in rows if row.dollars is None})
    console.print(
        f"in all: {sum(row.items for row in rows):,} items, {sum(row.tokens for row in rows):,.0f} tokens, "
        f"US $ {sum(row.dollars or 0.0 for row in rows):,.2f}"
        + (f" and what {', '.join(unpriced)} cost (set price_in and price_out in their files)" if unpriced else "")
        + f", {duration(sum(known))} one judge after the other"
        + ("" if len(known) == len(rows) else ", and those that were never measured here")
    )


def duration(seconds: float) -> str:
    """A time in the largest unit that leaves a number of at least one."""
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
