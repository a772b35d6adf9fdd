"""Ledger of the paper's numbers and claims, each with the measured value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Table
from assets.experiments.paper_numbers import FROM_TABLES, Claim, PaperNumbers, PrintedTable, measure, paper_numbers
from assets.workspace import Workspace

REPRODUCED, BY_OURS = "reproduced by the paper's procedure as written", "reproduced only by our procedure"
FOLLOWS, NOT_REPRODUCED = "follows from the paper's tables", "not reproduced"
NEEDS_MODELS, NOT_RUN = "needs language models", "not computed in this workspace"
VERDICTS = (REPRODUCED, BY_OURS, FOLLOWS, NOT_REPRODUCED, NEEDS_MODELS, NOT_RUN)

_UNEXPLAINED = "not explained"

Measures = Mapping[str, Mapping[str, float]]
"""What each experiment kept for the ledger, by experiment."""


@dataclass(frozen=True)
class LedgerRow:
    """One number or claim of the paper with its verdict.

    Attributes
    ----------
    paper : str
        What the paper says.
    as_written : float or None
        By the paper's own procedure as it is written.
    ours : float or None
        By this project's; equal to the former where it has no other.
    released : float or None
        By the authors' released code.
    """

    place: str
    says: str
    paper: str
    as_written: float | None
    ours: float | None
    released: float | None
    verdict: str
    why: str
    asset: str


def ledger_rows(measures: Measures) -> list[LedgerRow]:
    """Make a row for every number of the paper's tables and for every claim."""
    numbers = paper_numbers()
    rows = [_cell(table, *cell, measures, numbers) for table in numbers.tables for cell in table.cells()]
    return rows + [_claim(claim, measures, numbers) for claim in numbers.claims]


def _cell(
    table: PrintedTable, row: str, column: str, number: float, spread: float, measures: Measures, numbers: PaperNumbers
) -> LedgerRow:
    """Compare a number of a table with the measured one."""
    kept, (name, literal) = measures.get(table.asset, {}), table.names(row, column, numbers.written)
    ours, written = measure(kept, name), measure(kept, literal)
    ours_spread = measure(kept, f"{literal}, sd") or 0.0
    limit = max(numbers.within * abs(number), 2 * float(np.hypot(spread, ours_spread)))
    because, testset = table.because.get(column, {}).get(row, ""), name.partition("/")[0]
    if ours is None and written is None:
        scored = _scored(kept, name)
        verdict, why = NOT_RUN, f"no measure of {table.asset} for a test set called {testset}"
        if scored and table.absent:
            verdict, why = NOT_REPRODUCED, table.absent
        elif not scored and column not in table.recorded:
            verdict, why = NEEDS_MODELS, table.needs
    else:
        verdict = _verdict(*(value is not None and abs(value - number) <= limit for value in (written, ours)))
        off = [abs(value - number) for value in (written, ours) if value is not None]
        why = f"{off[0]:.3g} off, within {limit:.3g}" if verdict == REPRODUCED else because or _UNEXPLAINED
    paper = f"{number:.3f}" + (f" ± {spread:.3f}" if spread else "")
    released = table.released.get(column, {}).get(row)
    return LedgerRow(
        table.label, f"{row or '(blank)'}, {column}", paper, written, ours, released, verdict, why, table.asset
    )


def _scored(kept: Mapping[str, float], name: str) -> bool:
    """Return whether any measure belongs to the same test set."""
    return any(name.partition("/")[0] in key.partition("/")[0] for key in kept)


def _verdict(as_written: bool, ours: bool) -> str:
    """Return which procedure reproduces a number or claim."""
    return REPRODUCED if as_written else BY_OURS if ours else NOT_REPRODUCED


def _claim(claim: Claim, measures: Measures, numbers: PaperNumbers) -> LedgerRow:
    """Compare a claim with the paper's own tables or with a measure."""
    kept = measures.get(claim.asset, {})
    ours = measure(kept, claim.measure)
    if claim.printed:
        ours = FROM_TABLES[claim.printed](numbers)
    written = measure(kept, claim.as_written) if claim.as_written else ours
    if claim.value is not None:
        paper = f"{claim.value:g}"
    else:
        bound = f"at least {claim.at_least:g}" if claim.at_least is not None else f"at most {claim.at_most:g}"
        paper = f"{claim.printed or claim.measure}: {bound}"
    holds = [value is not None and _holds(claim, value) for value in (written, ours)]
    if ours is None and written is None:
        verdict, why = (NEEDS_MODELS, claim.needs) if claim.needs else (NOT_RUN, f"run {claim.asset}")
        if claim.needs and _scored(kept, claim.measure):
            verdict, why = NOT_REPRODUCED, "the panel has no such factor here, or the feature does not vary"
    elif claim.printed and holds[1]:
        verdict, why = FOLLOWS, "arithmetic on the printed numbers"
    else:
        verdict = _verdict(*holds)
        why = "it holds" if verdict == REPRODUCED else claim.because or _UNEXPLAINED
    return LedgerRow(claim.place, claim.says, paper, written, ours, None, verdict, why, claim.asset)


def _holds(claim: Claim, ours: float) -> bool:
    """Return whether a number rounds to the printed one, or lies within the claim's bounds."""
    if claim.value is not None:
        digits = len(f"{claim.value:g}".partition(".")[2])
        return abs(ours - claim.value) <= 0.5 * 10.0**-digits + 1e-9
    return (claim.at_least is None or ours >= claim.at_least) and (claim.at_most is None or ours <= claim.at_most)


def run(workspace: Workspace) -> ExperimentFindings:
    """Compare every number and claim with the stored measures of the other experiments."""
    from assets.experiments.registry import experiments

    kept = {key: experiment.kept(workspace) for key, experiment in experiments().items() if key != EXPERIMENT.key}
    rows = ledger_rows({key: found.findings.measures for key, found in kept.items() if found is not None})
    by_verdict = {verdict: [row for row in rows if row.verdict == verdict] for verdict in VERDICTS}
    counts = {verdict: len(listed) for verdict, listed in by_verdict.items()}
    explained = sum(row.why != _UNEXPLAINED for row in by_verdict[NOT_REPRODUCED])
    says = [
        f"{len(rows)} numbers and claims of the paper: {counts[REPRODUCED]} reproduced by its own "
        f"procedure as written, {counts[BY_OURS]} only by ours, {counts[FOLLOWS]} follow from the paper's own tables, "
        f"{counts[NOT_REPRODUCED]} not reproduced ({explained} with the reason), {counts[NEEDS_MODELS]} need language "
        f"models, {counts[NOT_RUN]} are not computed in this workspace.",
        f"Within: {paper_numbers().within:.0%} of the printed number, or two standard deviations of the difference.",
        "As written: judges that left at most a tenth unscored, over the items that all of them scored, joined by "
        "item; CARE-SVD by literal weights and CARE-Tensor by Algorithm 2, their penalties chosen from the paper's "
        "grids on 15 % of the items and measured on the rest, five splits; theorems by the estimator that they are "
        "about, on a panel of the paper's size.",
        "Tables: " + "; ".join(f"{table.label}, {table.about}" for table in paper_numbers().tables) + ".",
        "Each row is made again by `care run --select key:ASSET` with the asset that it names, then `key:ledger`.",
    ]
    tables = [Table(verdict, [_shown(row) for row in listed]) for verdict, listed in by_verdict.items() if listed]
    return ExperimentFindings(says, tables)


def _shown(row: LedgerRow) -> dict[str, Any]:
    return {
        "place": row.place,
        "what": row.says,
        "the paper": row.paper,
        "by its procedure as written": "–" if row.as_written is None else row.as_written,
        "by ours": "–" if row.ours is None else row.ours,
        "released code": "–" if row.released is None else row.released,
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
        "read from what the other experiments keep, none is typed: by the paper's procedure as it is written, by this "
        "project's, and what the authors' released code gives where it was measured. A number counts as reproduced "
        "where the procedure as written gives it. A cell for whose test set nobody has scores needs language models."
    ),
    run=run,
)
