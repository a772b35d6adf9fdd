"""The paper's numbers and claims, one by one, beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assets.experiments.base import Experiment, ExperimentFindings, Table
from assets.experiments.paper_numbers import FROM_TABLES, Claim, PaperNumbers, PrintedTable, paper_numbers

if TYPE_CHECKING:
    from assets.workspace import Workspace

REPRODUCED, AS_RELEASED = "reproduced", "reproduced, counted as the released code counts"
FOLLOWS, NOT_REPRODUCED = "follows from the paper's tables", "not reproduced"
NEEDS_MODELS, NOT_RUN = "needs language models", "not computed in this workspace"

Measures = Mapping[str, Mapping[str, float]]
"""What each experiment kept for the ledger, by experiment."""


@dataclass(frozen=True)
class LedgerRow:
    """One number or claim, and what became of it."""

    place: str
    says: str
    paper: str
    ours: float | None
    released: float | None
    counted_as_released: float | None
    verdict: str
    why: str
    asset: str


def ledger_rows(measures: Measures) -> list[LedgerRow]:
    """Make a row for every number of the paper's tables and for every claim."""
    numbers = paper_numbers()
    rows = [_cell(table, *cell, measures, numbers.within) for table in numbers.tables for cell in table.cells()]
    return rows + [_claim(claim, measures, numbers) for claim in numbers.claims]


def _cell(
    table: PrintedTable, row: str, column: str, number: float, spread: float, measures: Measures, within: float
) -> LedgerRow:
    """A number of a table."""
    kept, testset, name = measures.get(table.asset, {}), table.columns.get(column), table.rows.get(row)
    ours = alike = None
    if testset is not None and name is not None:
        ours = _measure(kept, table.ours, testset, name)
        alike = _measure(kept, table.counted_as_released, testset, name)
    limit = max(within * abs(number), 2 * spread)
    because = table.because.get(column, {}).get(row, "")
    if testset is None or name is None:
        verdict, why = NEEDS_MODELS, table.needs
    elif ours is None and table.absent and any(testset in name.partition("/")[0] for name in kept):
        verdict, why = NOT_REPRODUCED, table.absent
    elif ours is None:
        verdict, why = NOT_RUN, f"no measure of {table.asset} for a test set called {testset}"
    elif abs(ours - number) <= limit:
        verdict, why = REPRODUCED, f"{abs(ours - number):.3g} off, within {limit:.3g}"
    elif alike is not None and abs(alike - number) <= limit:
        verdict, why = AS_RELEASED, f"{abs(alike - number):.3g} off, within {limit:.3g}"
    else:
        verdict, why = NOT_REPRODUCED, because or "nobody has said why"
    paper = f"{number:.3f}" + (f" ± {spread:.3f}" if spread else "")
    released = table.released.get(column, {}).get(row)
    return LedgerRow(
        table.label, f"{row or '(blank)'}, {column}", paper, ours, released, alike, verdict, why, table.asset
    )


def _measure(kept: Mapping[str, float], template: str, testset: str, row: str) -> float | None:
    """The measure of the first test set whose name has this part."""
    _, _, rest = template.format(column="", row=row).partition("/")
    matching = (name for name in sorted(kept) if name.partition("/")[2] == rest and testset in name.partition("/")[0])
    return next((kept[name] for name in matching), None) if template else None


def _claim(claim: Claim, measures: Measures, numbers: PaperNumbers) -> LedgerRow:
    """A claim: from the paper's own tables, from a measure, or for want of language models not at all."""
    ours = measures.get(claim.asset, {}).get(claim.measure)
    if claim.printed:
        ours = FROM_TABLES[claim.printed](numbers)
    if claim.value is not None:
        paper = f"{claim.value:g}"
    else:
        bound = f"at least {claim.at_least:g}" if claim.at_least is not None else f"at most {claim.at_most:g}"
        paper = f"{claim.printed or claim.measure}: {bound}"
    if ours is None:
        verdict, why = (NEEDS_MODELS, claim.needs) if claim.needs else (NOT_RUN, f"run {claim.asset}")
    elif _holds(claim, ours):
        verdict, why = (FOLLOWS, "arithmetic on the printed numbers") if claim.printed else (REPRODUCED, "it holds")
    else:
        verdict, why = NOT_REPRODUCED, claim.because or "nobody has said why"
    return LedgerRow(claim.place, claim.says, paper, ours, None, None, verdict, why, claim.asset)


def _holds(claim: Claim, ours: float) -> bool:
    """Whether a number rounds to the printed one, or lies within the claim's bounds."""
    if claim.value is not None:
        digits = len(f"{claim.value:g}".partition(".")[2])
        return abs(ours - claim.value) <= 0.5 * 10.0**-digits + 1e-9
    return (claim.at_least is None or ours >= claim.at_least) and (claim.at_most is None or ours <= claim.at_most)


def run(workspace: Workspace) -> ExperimentFindings:
    """Every number and claim, from what the other experiments keep."""
    from assets.experiments.registry import experiments

    kept = {key: experiment.kept(workspace) for key, experiment in experiments().items() if key != EXPERIMENT.key}
    rows = ledger_rows({key: found.findings.measures for key, found in kept.items() if found is not None})
    verdicts = (REPRODUCED, AS_RELEASED, FOLLOWS, NOT_REPRODUCED, NEEDS_MODELS, NOT_RUN)
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in verdicts}
    measured = [row for row in rows if row.verdict in (REPRODUCED, AS_RELEASED, NOT_REPRODUCED)]
    explained = sum(row.verdict == NOT_REPRODUCED and row.why != "nobody has said why" for row in rows)
    says = [
        f"{len(rows)} numbers and claims: {counts[REPRODUCED]} reproduced, {counts[AS_RELEASED]} more where items are "
        f"counted as the released code counts them, {counts[FOLLOWS]} follow from the paper's own tables, "
        f"{counts[NOT_REPRODUCED]} not reproduced ({explained} with the reason), {counts[NEEDS_MODELS]} need language "
        f"models, {counts[NOT_RUN]} are not computed in this workspace.",
        f"Within: {paper_numbers().within:.0%} of the printed number, or two printed standard deviations.",
        "Tables: " + "; ".join(f"{table.label}, {table.about}" for table in paper_numbers().tables) + ".",
        "Each row is made again by `care run --select key:ASSET` with the asset that it names, then `key:ledger`.",
    ]
    by_place: dict[str, list[dict[str, Any]]] = {}
    for row in [*measured, *(row for row in rows if row not in measured)]:
        by_place.setdefault(row.verdict, []).append(_shown(row))
    return ExperimentFindings(says, [Table(verdict, by_place[verdict]) for verdict in verdicts if verdict in by_place])


def _shown(row: LedgerRow) -> dict[str, Any]:
    return {
        "place": row.place,
        "what": row.says,
        "paper": row.paper,
        "ours": "–" if row.ours is None else row.ours,
        "released code": "–" if row.released is None else row.released,
        "ours, its rows": "–" if row.counted_as_released is None else row.counted_as_released,
        "why": row.why,
        "asset": row.asset,
    }


EXPERIMENT = Experiment(
    key="ledger",
    title="The paper's numbers, one by one",
    asks="Which numbers and claims of the paper come out here, which do not and why, and which need language models?",
    paper="Six tables of numbers, and the claims of its text and figures.",
    protocol=(
        "The paper's numbers stand in assets/experiments/paper_numbers.yaml, with their places in its tex. Ours are "
        "read from what the other experiments keep, none is typed; what the authors' released code gives stands beside "
        "them where it was measured. A cell for whose test set nobody has scores needs language models."
    ),
    run=run,
)
