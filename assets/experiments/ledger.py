"""Ledger of the paper's numbers and claims, each with the measured value."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot
from typing import Any

from assets.experiments.base import Experiment, ExperimentFindings, Table
from assets.experiments.paper_numbers import FROM_TABLES, Claim, PaperNumbers, PrintedTable, measure, paper_numbers
from assets.workspace import Workspace

REPRODUCED, BY_OURS = "reproduced by the paper's procedure as written", "reproduced only by our procedure"
FOLLOWS, NOT_REPRODUCED = "follows from the paper's tables", "not reproduced"
NEEDS_MODELS, NOT_RUN = "needs language models", "not computed in this workspace"
VERDICTS = (REPRODUCED, BY_OURS, FOLLOWS, NOT_REPRODUCED, NEEDS_MODELS, NOT_RUN)

_UNEXPLAINED = "not explained"

Measures = Mapping[str, Mapping[str, float]]
"""Stored measures, by experiment."""


@dataclass(frozen=True)
class LedgerRow:
    """One number or claim of the paper with its verdict.

    It is measured by the paper's procedure as written, by this project's procedure (the same unless they differ), and
    by the authors' released code; None if not measured.
    """

    place: str
    claim: str
    paper: str
    as_written: float | None
    ours: float | None
    released: float | None
    verdict: str
    why: str
    asset: str


def ledger_rows(measures: Measures) -> list[LedgerRow]:
    """Return a row for every number of the paper's tables and for every claim."""
    numbers = paper_numbers()
    rows = [_cell(table, *cell, measures, numbers) for table in numbers.tables for cell in table.cells()]
    return rows + [_claim(claim, measures, numbers) for claim in numbers.claims]


def _cell(
    table: PrintedTable, row: str, column: str, number: float, spread: float, measures: Measures, numbers: PaperNumbers
) -> LedgerRow:
    """Compare a number of a table with the measured one."""
    found, (name, literal) = measures.get(table.asset, {}), table.names(row, column, numbers.written)
    ours, written = measure(found, name), measure(found, literal)
    limit = max(numbers.within * abs(number), 2 * hypot(spread, measure(found, f"{literal}, sd") or 0.0))
    off = [abs(value - number) for value in (written, ours) if value is not None]
    if off:
        verdict = _verdict(*(value is not None and abs(value - number) <= limit for value in (written, ours)))
        because = table.because.get(column, {}).get(row, _UNEXPLAINED)
        why = f"{off[0]:.3g} off, within {limit:.3g}" if verdict == REPRODUCED else because
    elif _is_scored(found, name):
        verdict, why = (NOT_REPRODUCED, table.absent) if table.absent else (NOT_RUN, f"run {table.asset}")
    elif column in table.recorded:
        verdict, why = NOT_RUN, f"no measure of {table.asset} for a test set called {name.partition('/')[0]}"
    else:
        verdict, why = NEEDS_MODELS, table.needs
    paper = f"{number:.3f}" + (f" ± {spread:.3f}" if spread else "")
    released = table.released.get(column, {}).get(row)
    return LedgerRow(
        table.label, f"{row or '(blank)'}, {column}", paper, written, ours, released, verdict, why, table.asset
    )


def _is_scored(found: Mapping[str, float], name: str) -> bool:
    """Return whether any measure belongs to the same test set."""
    return any(name.partition("/")[0] in key.partition("/")[0] for key in found)


def _verdict(as_written: bool, ours: bool) -> str:
    return REPRODUCED if as_written else BY_OURS if ours else NOT_REPRODUCED


def _claim(claim: Claim, measures: Measures, numbers: PaperNumbers) -> LedgerRow:
    """Compare a claim with the paper's own tables or with a measure."""
    found = measures.get(claim.asset, {})
    ours = float(FROM_TABLES[claim.printed](numbers)) if claim.printed else measure(found, claim.measure)
    written = measure(found, claim.as_written) if claim.as_written else ours
    bound = f"at least {claim.at_least:g}" if claim.at_least is not None else f"at most {claim.at_most or 0:g}"
    paper = f"{claim.value:g}" if claim.value is not None else f"{claim.printed or claim.measure}: {bound}"
    holds = [value is not None and _holds(claim, value) for value in (written, ours)]
    if ours is None and written is None:
        verdict, why = (NEEDS_MODELS, claim.needs) if claim.needs else (NOT_RUN, f"run {claim.asset}")
        if claim.needs and _is_scored(found, claim.measure):
            verdict, why = NOT_REPRODUCED, "the panel has no such factor here, or the feature does not vary"
    elif claim.printed and holds[1]:
        verdict, why = FOLLOWS, "arithmetic on the printed numbers"
    else:
        verdict = _verdict(*holds)
        why = "it holds" if verdict == REPRODUCED else claim.because or _UNEXPLAINED
    return LedgerRow(claim.place, claim.claim, paper, written, ours, None, verdict, why, claim.asset)


def _holds(claim: Claim, ours: float) -> bool:
    """Return whether a number rounds to the printed number, or lies within the claim's bounds."""
    if claim.value is not None:
        digits = len(f"{claim.value:g}".partition(".")[2])
        return abs(ours - claim.value) <= 0.5 * 10.0**-digits + 1e-9
    return (claim.at_least is None or ours >= claim.at_least) and (claim.at_most is None or ours <= claim.at_most)


def run(workspace: Workspace) -> ExperimentFindings:
    """Compare every number and claim with the stored measures of the other experiments."""
    from assets.experiments.registry import experiments

    stored = {key: experiment.stored(workspace) for key, experiment in experiments().items()}
    rows = ledger_rows({key: found.findings.measures for key, found in stored.items() if found is not None})
    by_verdict = {verdict: [row for row in rows if row.verdict == verdict] for verdict in VERDICTS}
    counts = {verdict: len(listed) for verdict, listed in by_verdict.items()}
    explained = sum(row.why != _UNEXPLAINED for row in by_verdict[NOT_REPRODUCED])
    conclusions = [
        f"{len(rows)} numbers and claims of the paper: {counts[REPRODUCED]} reproduced by its own "
        f"procedure as written, {counts[BY_OURS]} only by ours, {counts[FOLLOWS]} follow from the paper's own tables, "
        f"{counts[NOT_REPRODUCED]} not reproduced ({explained} with the reason), {counts[NEEDS_MODELS]} need language "
        f"models, {counts[NOT_RUN]} are not computed in this workspace.",
        f"Reproduced: within {paper_numbers().within:.0%} of the printed number, or two standard deviations.",
        "As written: judges that left at most a tenth unscored, over the items that all of them scored, joined by "
        "item; CARE-SVD by literal weights and CARE-Tensor by Algorithm 2, their penalties chosen from the paper's "
        "grids on 15 % of the items and measured on the rest, five splits; theorems by their own "
        "estimator, on a panel of the paper's size.",
        "Tables: " + "; ".join(f"{table.label}, {table.about}" for table in paper_numbers().tables) + ".",
        "`care run --select key:ASSET`, then `key:ledger`, computes a row again.",
    ]
    tables = [Table(verdict, [_shown(row) for row in listed]) for verdict, listed in by_verdict.items() if listed]
    return ExperimentFindings(conclusions, tables)


def _shown(row: LedgerRow) -> dict[str, Any]:
    return {
        "place": row.place,
        "what": row.claim,
        "the paper": row.paper,
        "by its procedure as written": row.as_written,
        "by ours": row.ours,
        "released code": row.released,
        "why": row.why,
        "asset": row.asset,
    }


EXPERIMENT = Experiment(
    key="ledger",
    title="The paper's numbers, one by one",
    paper="Six tables of numbers, and the claims of its text and figures.",
    protocol=(
        "The paper's numbers are in assets/experiments/paper_numbers.yaml, with their places in its tex. Ours are read "
        "from the findings of the other experiments: by the paper's procedure as written, by this project's, and by "
        "the authors' released code where it was measured. A number is reproduced if the procedure as written gives "
        "it. A cell of a test set without scores needs language models."
    ),
    run=run,
)
EXPERIMENTS = (EXPERIMENT,)
