"""Was it the system or a judge? Planted changes, simulated and on recorded panels. ``make study-attribution``.

The design, fixed before any of its results was seen. (A study of the test alone, of six references a night
of which none came twice and of prompts that never repeat, came before it and chose nothing in it.)

- A night: 5 judges are asked again about 12 references, and score 12 new answers of each of 2 systems. References are
  what both systems said before the first night, the least asked first: each is asked about every ``POOL`` / 12 nights.
  Their order is drawn; the product's is that of hashes. An earlier run took them in turn: ten nights asked about one
  system alone, and about the very answers that new ones were compared with. A simulated system's change was told in
  .915 of its streams, and where a judge of hanna Relevance changed, an innocent in .100.
  90 nights. 1,000 streams without a change a panel (``--draws``), 200 of each change (``--planted``).
- Simulated, on a scale of 0 to 10 in whole points: a score is 5 + 1.5 (difficulty of the prompt) + 1 (the answer) + 1
  (judge and answer) + .5 (this asking), standard normal each, plus the judge's shift, rounded and clipped. 120 prompts,
  of which each system answers 12 a night anew, in turn. From night 30 on one judge scores 1 point higher, or the
  answers of one system are .75 points worse, or both.
- Recorded: every panel of CARE_DATA_DIR that names systems and declares a scale (``PANELS``); 5 judges and 2 systems
  are drawn for each stream. Answers, before and anew, are drawn from the system's recorded ones with replacement, and
  have a prompt each, so that none is compared within a prompt. Asking is not recorded twice: a judge gives its recorded
  score with a chance of .8, else that of one of the ten answers with the nearest panel mean. From night 30 on one judge
  answers as another judge of the panel that was not drawn, or one system as another one, or both. So changes are as
  large as recorded judges and systems differ, which may be nothing.
- The tests: the product's differences (``attribution.of_system``) and ``attribution.change``, 2.5 % for the judges and
  2.5 % for the systems, shared out equally; and a rolling z-test on the same differences: the mean of the last 14
  nights over its standard error, looked at every night from the 14th on, told beyond 1.96 and, in another row, beyond
  2.69, which is Bonferroni's correction for seven streams.
- Printed: the share of streams in which anything is told before a change (of neither: ever); in which exactly those
  that changed are told by night 90; in which somebody innocent is, and in which nothing holds that: it is a judge, or a
  system before any judge (this column came after the others had been seen); medians, of those told, of the delay in
  nights from the change to the last of the guilty, and of how far the night that is named is from the true one.

Belongs here: draws and the table. Belongs elsewhere: the test (``care_ops.results.attribution``).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from care_ops.results.attribution import FALSE_ALARMS, Answer, Difference, change, of_system
from tests.support.panels import View, views

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

JUDGES, SYSTEMS, ITEMS, NIGHTS, CHANGE, WINDOW = 5, 2, 12, 90, 30, 14
PROMPTS = 120
SEED = 20261126
POOL = PROMPTS * SYSTEMS
PANELS = {"hanna": ("system", 1.0, 5.0), "triviaqa_judges_v1": ("exam_taker", 0.0, 1.0)}
"""By folder the column of its systems, and its scale."""

RESULTS = Path(__file__).parents[1] / "results" / "study-attribution.md"
NAMES = [f"judge {j}" for j in range(JUDGES)]
SYSTEM_NAMES = [f"system {k}" for k in range(SYSTEMS)]

Differences = dict[str, list[Difference]]
Told = dict[str, tuple[int, int]]
"""Who is told of: the night of the telling, and the night that is named."""


class World(Protocol):
    """Answers of systems and what judges say of them; of one stream."""

    def answers(self, system: int, prompts: Rows, *, changed: bool) -> object:
        """What a system says to these prompts."""
        ...

    def ask(self, answers: object, *, changed: bool) -> Array:
        """Scores of these answers by every judge, (judges, answers), in shares of the scale."""
        ...

    def pick(self, answers: list[object], rows: Rows) -> object:
        """Some of the answers of all systems, which are counted through."""
        ...

    @property
    def rng(self) -> np.random.Generator:
        """What everything of this stream is drawn by."""
        ...

    @property
    def paired(self) -> bool:
        """Whether an answer is compared with one to the same prompt."""
        ...


@dataclass(frozen=True)
class Simulated:
    """The simulated world; an answer is its quality and what each judge makes of it."""

    rng: np.random.Generator
    difficulty: Array
    paired: bool = True

    def answers(self, system: int, prompts: Rows, *, changed: bool) -> Array:
        """Quality as a judge sees it, (judges, answers)."""
        worse = 0.75 if changed and system == 0 else 0.0
        own = self.rng.normal(size=len(prompts)) - worse
        return 5.0 + 1.5 * self.difficulty[prompts] + own + self.rng.normal(size=(JUDGES, len(prompts)))

    def ask(self, answers: object, *, changed: bool) -> Array:
        """Whole points."""
        seen = np.asarray(answers) + 0.5 * self.rng.normal(size=np.asarray(answers).shape)
        seen[0] += 1.0 if changed else 0.0
        return np.clip(np.round(seen), 0, 10) / 10

    def pick(self, answers: list[object], rows: Rows) -> Array:
        """Columns."""
        return np.concatenate([np.asarray(each) for each in answers], axis=1)[:, rows]


@dataclass(frozen=True)
class Recorded:
    """A recorded panel; an answer is a row of it.

    ``columns`` are the judges that were drawn, and one more, as which the first answers where it changes; ``members``
    the rows of the systems that were drawn, and of one more.
    """

    rng: np.random.Generator
    shares: Array
    near: Rows
    columns: Rows
    members: list[Rows]
    paired: bool = False

    def answers(self, system: int, prompts: Rows, *, changed: bool) -> Rows:
        """Rows drawn from those of the system."""
        return self.rng.choice(self.members[-1 if changed and system == 0 else system], len(prompts))

    def ask(self, answers: object, *, changed: bool) -> Array:
        """The recorded score, or now and then that of an answer about as good."""
        rows = np.asarray(answers)
        chosen = np.tile(rows, (JUDGES, 1))
        other = self.near[chosen, self.rng.integers(self.near.shape[1], size=chosen.shape)]
        chosen = np.where(self.rng.random(chosen.shape) < 0.2, other, chosen)
        columns = self.columns[:JUDGES].copy()
        if changed:
            columns[0] = self.columns[-1]
        return self.shares[chosen, columns[:, None]]

    def pick(self, answers: list[object], rows: Rows) -> Rows:
        """Rows of the panel."""
        return np.concatenate([np.asarray(each) for each in answers])[rows]


def recorded(view: View, rng: np.random.Generator) -> Recorded:
    """Judges and systems of one stream; answers that some judge did not score are left out."""
    column, low, high = PANELS[view.family]
    table = pq.read_table(
        Path(os.environ["CARE_DATA_DIR"]) / view.family / "items.parquet", columns=["item_id", column]
    )
    named = dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
    whole = np.flatnonzero(~np.isnan(view.scores.values).any(axis=1))
    shares = (view.scores.values[whole] - low) / (high - low)
    system = np.array([named[view.scores.item_ids[row]] for row in whole.tolist()])
    order = np.argsort(shares.mean(axis=1), kind="stable")
    place = np.argsort(order)
    steps = np.array([d for d in range(-5, 6) if d])
    near = order[np.clip(place[:, None] + steps[None, :], 0, len(order) - 1)]
    drawn = rng.choice(np.unique(system), SYSTEMS + 1, replace=False)
    columns = rng.choice(shares.shape[1], JUDGES + 1, replace=False)
    return Recorded(rng, shares, near, columns, [np.flatnonzero(system == name) for name in drawn])


@dataclass(frozen=True)
class Planted:
    """What changes from night ``CHANGE`` on."""

    name: str
    judge: bool = False
    system: bool = False

    @property
    def guilty(self) -> set[str]:
        """Names of those that change."""
        return {name for name, changed in (("judge 0", self.judge), ("system 0", self.system)) if changed}


KINDS = (Planted("neither"), Planted("judge", judge=True), Planted("system", system=True), Planted("both", True, True))


def stream(world: World, planted: Planted) -> Differences:
    """The differences of each judge and of each system over all nights, as a workspace would have them."""
    said = [world.answers(k, np.arange(PROMPTS), changed=False) for k in range(SYSTEMS)]
    then = np.concatenate([world.ask(each, changed=False) for each in said], axis=1)
    found: Differences = {name: [] for name in NAMES}
    references: dict[int, list[tuple[str, dict[str, float]]]] = {}
    asked = world.rng.permutation(POOL)
    new: list[list[Answer]] = [[] for _ in range(SYSTEMS)]
    for night in range(1, NIGHTS + 1):
        late = night > CHANGE
        rows = np.arange((night - 1) * ITEMS, night * ITEMS)
        again = asked[rows % POOL]
        moved = world.ask(world.pick(said, again), changed=late and planted.judge) - then[:, again]
        references[night] = [
            (f"then {row}", dict(zip(NAMES, column.tolist(), strict=True)))
            for row, column in zip(again.tolist(), moved.T, strict=True)
        ]
        for name, sizes in zip(NAMES, moved.tolist(), strict=True):
            found[name] += [Difference(night, d, row // POOL + 1) for row, d in zip(rows.tolist(), sizes, strict=True)]
        for k in range(SYSTEMS):
            anew = world.answers(k, rows % PROMPTS, changed=late and planted.system)
            scores = world.ask(anew, changed=late and planted.judge)
            new[k] += _answers(world, scores, night, [f"new {k} {row}" for row in rows.tolist()], rows % PROMPTS)
    for k in range(SYSTEMS):
        own = slice(k * PROMPTS, (k + 1) * PROMPTS)
        keys = [f"then {row}" for row in range(POOL)[own]]
        before = _answers(world, then[:, own], 0, keys, np.arange(PROMPTS))
        found[f"system {k}"] = list(of_system(before, new[k], references, NAMES, ITEMS))
    return found


def _answers(world: World, scores: Array, night: int, keys: list[str], prompts: Rows) -> list[Answer]:
    named = [str(prompt) if world.paired else key for prompt, key in zip(prompts.tolist(), keys, strict=True)]
    columns = zip(named, keys, scores.T.tolist(), strict=True)
    return [Answer(prompt, key, night, dict(zip(NAMES, each, strict=True))) for prompt, key, each in columns]


def by_betting(found: Differences) -> Told:
    """Who is told of by the test."""
    each = {"judge": FALSE_ALARMS / 2 / JUDGES, "system": FALSE_ALARMS / 2 / SYSTEMS}
    changed = {name: change(differences, each[name.split()[0]]) for name, differences in found.items()}
    return {name: (one.told, one.night) for name, one in changed.items() if one is not None}


def by_rolling_z(bound: float) -> Callable[[Differences], Told]:
    """Who is told of by a rolling z-test; the night that is named is the first of the window."""

    def test(found: Differences) -> Told:
        told: Told = {}
        for name, differences in found.items():
            night = np.array([each.night for each in differences])
            size = np.array([each.size for each in differences])
            for last in range(WINDOW, NIGHTS + 1):
                window = size[(night > last - WINDOW) & (night <= last)]
                error = window.std(ddof=1) / np.sqrt(len(window)) if len(window) > 1 else 0.0
                if error > 0 and abs(window.mean()) > bound * error:
                    told[name] = (last, last - WINDOW + 1)
                    break
        return told

    return test


TESTS: dict[str, Callable[[Differences], Told]] = {
    f"betting, {FALSE_ALARMS:.0%} for all": by_betting,
    "rolling z, 1.96": by_rolling_z(1.96),
    "rolling z, 2.69": by_rolling_z(2.69),
}


def summed(planted: Planted, found: list[Told]) -> list[str]:
    """A row of the table."""
    came = CHANGE + 1
    first = [min((told for told, _ in each.values()), default=NIGHTS + 1) for each in found]
    before = np.mean([night < (came if planted.guilty else NIGHTS + 1) for night in first])
    exact = np.mean([set(each) == planted.guilty for each in found])
    innocent = np.mean([bool(set(each) - planted.guilty) for each in found])
    loose = np.mean([any(not _held(each, who) for who in set(each) - planted.guilty) for each in found])
    whole = [each for each in found if planted.guilty and planted.guilty <= set(each)]
    delays = [max(each[name][0] for name in planted.guilty) - came for each in whole]
    named = [abs(each[name][1] - came) for each in whole for name in planted.guilty]
    medians = [f"{np.median(values):.0f}" if values else "" for values in (delays, named)]
    return [f"{before:.3f}", f"{exact:.3f}", f"{innocent:.3f}", f"{loose:.3f}", *medians]


def _held(told: Told, who: str) -> bool:
    """Whether what is told of a system waits for a judge of which was told before it, or on the same night."""
    return who in SYSTEM_NAMES and any(told[judge][0] <= told[who][0] for judge in NAMES if judge in told)


def cell(job: tuple[str, int, int, int]) -> list[list[str]]:
    """The rows of a panel and a change, by the place of either in the list, and of so many streams."""
    panel, number, kind, draws = job
    view = next((view for view in views() if view.name == panel), None)
    planted, rng = KINDS[kind], np.random.default_rng([SEED, number, kind])
    found: dict[str, list[Told]] = {test: [] for test in TESTS}
    for _ in range(draws):
        world = Simulated(rng, rng.normal(size=PROMPTS)) if view is None else recorded(view, rng)
        differences = stream(world, planted)
        for name, test in TESTS.items():
            found[name].append(test(differences))
    return [[panel, planted.name, name, *summed(planted, told)] for name, told in found.items()]


def rows(draws: int, few: int) -> Iterator[list[str]]:
    """The rows of the table; two cells at a time."""
    panels = ["simulated", *(view.name for view in views() if view.family in PANELS)]
    jobs = [
        (panel, number, kind, few if planted.guilty else draws)
        for number, panel in enumerate(panels)
        for kind, planted in enumerate(KINDS)
    ]
    with ProcessPoolExecutor(2) as pool:
        for told in pool.map(cell, jobs):
            yield from told


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.attribution")
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--planted", type=int, default=200)
    given = parser.parse_args()
    head = ["panel", "planted", "test", "told too early", "exactly the guilty", "an innocent", "not held"]
    head += ["delay", "night off by"]
    found = rows(given.draws, given.planted)
    table = "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *found))
    text = (
        "# The system or the judges\n\nWritten by `make study-attribution`; the first lines of "
        f"`benchmarks/studies/attribution.py` are the design: {given.draws:,} streams of {NIGHTS} nights a panel "
        f"without a change and {given.planted:,} of each change, {JUDGES} judges, {SYSTEMS} systems, {ITEMS} "
        f"references and {ITEMS} answers of a system a night, seed {SEED}. Shares; delays in nights (medians).\n\n"
        f"{table}\n"
    )
    RESULTS.write_text(text)
    print(table)


if __name__ == "__main__":
    main()
