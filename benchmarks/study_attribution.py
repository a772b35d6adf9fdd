"""Was it the system or a judge? Planted changes, and none. ``python -m benchmarks.study_attribution``.

The design, fixed before any result was seen.

- A night: 5 judges score, on a scale of 0 to 10 in whole points, 6 reference answers that they scored once before, and
  what each of 2 systems says to the same 6 prompts. A score is 5 + 1.5 (difficulty of the prompt) + 1 (the answer) +
  1 (judge and answer) + .5 (chance), standard normal each, plus the judge's shift, rounded and clipped. No prompt is
  used on two nights. 90 nights, 1,000 streams of each kind (``--draws``).
- Neither: nothing changes. Judge: from night 30 on one judge scores 1 point higher (2 in a second row). System: from
  night 30 on the answers of one system are .75 points worse (1.5 in a second row). Both: both of the larger.
- The tests: ``care_ops.results.attribution.attribute`` with 5 % for all seven streams together, and a rolling z-test on
  the same differences: the mean of the last 14 nights over its standard error, looked at every night from the 14th on,
  told beyond 1.96 and, in a second column, beyond 2.69, which is Bonferroni's correction for seven streams.
- Printed: the share of streams in which anything is told before a change (of neither: ever); the share in which exactly
  those that changed are told by night 90, and in which somebody innocent is told; the median delay in nights from the
  change to the last of the guilty, of those told; the median distance between the night that is named and the true one.

Belongs here: draws and the table. Belongs elsewhere: the test (``care_ops.results.attribution``).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from care_ops.results.attribution import FALSE_ALARMS, attribute

Array = NDArray[np.float64]

JUDGES, SYSTEMS, ITEMS, NIGHTS, CHANGE, WINDOW = 5, 2, 6, 90, 30, 14
RESULTS = Path(__file__).parent / "results" / "study-attribution.md"


@dataclass(frozen=True)
class Planted:
    """What changes from night ``CHANGE`` on, in points."""

    name: str
    judge: float = 0.0
    system: float = 0.0

    @property
    def guilty(self) -> set[str]:
        """Names of those that change."""
        return {name for name, shift in (("judge 0", self.judge), ("system 0", self.system)) if shift}


KINDS = (
    Planted("neither"),
    Planted("judge +1", judge=1.0),
    Planted("judge +2", judge=2.0),
    Planted("system -.75", system=-0.75),
    Planted("system -1.5", system=-1.5),
    Planted("both +2, -1.5", judge=2.0, system=-1.5),
)

Told = dict[str, tuple[int, int]]
"""Who is told of: the night of the telling, and the night that is named."""


def streams(planted: Planted, rng: np.random.Generator) -> tuple[dict[str, Array], dict[str, Array]]:
    """Differences of each judge and of each system, (nights, items) arrays in shares of the scale."""
    shape = (NIGHTS, ITEMS)
    late = np.arange(NIGHTS)[:, None] >= CHANGE
    prompt = 5.0 + 1.5 * rng.normal(size=shape)
    shifts = [planted.judge * late if j == 0 else 0.0 * late for j in range(JUDGES)]

    def asked(answer: Array, taste: list[Array], shift: list[Array]) -> list[Array]:
        drawn = (0.5 * rng.normal(size=shape) for _ in range(JUDGES))
        return [np.clip(np.round(answer + t + s + d), 0, 10) / 10 for t, s, d in zip(taste, shift, drawn, strict=True)]

    def tastes() -> list[Array]:
        return [rng.normal(size=shape) for _ in range(JUDGES)]

    reference, taste = prompt + rng.normal(size=shape), tastes()
    then, tonight = asked(reference, taste, [0.0 * late] * JUDGES), asked(reference, taste, shifts)
    judges = {f"judge {j}": tonight[j] - then[j] for j in range(JUDGES)}
    systems: dict[str, Array] = {}
    for k in range(SYSTEMS):
        answer = prompt + rng.normal(size=shape) + (planted.system * late if k == 0 else 0.0)
        scores = asked(answer, tastes(), shifts)
        systems[f"system {k}"] = np.mean([s - r for s, r in zip(scores, tonight, strict=True)], axis=0)
    return judges, systems


def by_betting(judges: dict[str, Array], systems: dict[str, Array]) -> Told:
    """Who is told of by the test."""
    found = attribute({n: list(d) for n, d in judges.items()}, {n: list(d) for n, d in systems.items()})
    return {name: (one.told, one.night) for name, one in {**found.judges, **found.systems}.items()}


def by_rolling_z(judges: dict[str, Array], systems: dict[str, Array], bound: float) -> Told:
    """Who is told of by a rolling z-test; the night that is named is the first of the window."""
    told: Told = {}
    for name, nights in {**judges, **systems}.items():
        windows = np.lib.stride_tricks.sliding_window_view(nights, WINDOW, axis=0).reshape(-1, WINDOW * ITEMS)
        error = windows.std(axis=1, ddof=1) / np.sqrt(WINDOW * ITEMS)
        beyond = np.flatnonzero((error > 0) & (np.abs(windows.mean(axis=1)) > bound * error))
        if len(beyond):
            told[name] = (int(beyond[0]) + WINDOW - 1, int(beyond[0]))
    return told


def summed(planted: Planted, found: list[Told]) -> list[str]:
    """A row of the table."""
    first = [min((told for told, _ in each.values()), default=NIGHTS) for each in found]
    before = np.mean([night < (CHANGE if planted.guilty else NIGHTS) for night in first])
    exact = np.mean([set(each) == planted.guilty for each in found])
    innocent = np.mean([bool(set(each) - planted.guilty) for each in found])
    whole = [each for each in found if planted.guilty and planted.guilty <= set(each)]
    delays = [max(each[name][0] for name in planted.guilty) - CHANGE for each in whole]
    named = [abs(each[name][1] - CHANGE) for each in whole for name in planted.guilty]
    medians = [f"{np.median(values):.0f}" if values else "" for values in (delays, named)]
    return [f"{before:.3f}", f"{exact:.3f}", f"{innocent:.3f}", *medians]


def rows(draws: int, seed: int) -> Iterator[list[str]]:
    """The rows of the table."""
    for planted in KINDS:
        rng = np.random.default_rng([seed, KINDS.index(planted)])
        drawn = [streams(planted, rng) for _ in range(draws)]
        tests = {
            f"betting, {FALSE_ALARMS:.0%} for all": [by_betting(*each) for each in drawn],
            "rolling z, 1.96": [by_rolling_z(*each, 1.96) for each in drawn],
            "rolling z, 2.69": [by_rolling_z(*each, 2.69) for each in drawn],
        }
        for test, found in tests.items():
            yield [planted.name, test, *summed(planted, found)]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study_attribution")
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=20261125)
    given = parser.parse_args()
    head = ["planted", "test", "told too early", "exactly the guilty", "an innocent", "delay", "night off by"]
    lines = [" | ".join(row) for row in (head, ["---"] * len(head), *rows(given.draws, given.seed))]
    table = "\n".join(f"| {line} |" for line in lines)
    text = (
        "# The system or the judges\n\nWritten by `python -m benchmarks.study_attribution`, whose first lines are the "
        f"design: {given.draws:,} streams of {NIGHTS} nights a kind, {JUDGES} judges, {SYSTEMS} systems, {ITEMS} items "
        f"a night, seed {given.seed}. Shares; delays in nights (medians).\n\n{table}\n"
    )
    RESULTS.write_text(text)
    print(table)


if __name__ == "__main__":
    main()
