"""Attribution of a change to a system or to a judge, by sequential tests that hold over all runs.

In each run each judge scores a few references (answers that it scored when it was anchored) again, and scores new
answers of the systems.

- A judge's difference is its new score of a reference minus its old score. If the judge has not changed, the two are
  exchangeable, so their difference is symmetric about 0, whatever the systems do.
- A system's difference is the mean score of a new answer minus that of an earlier answer to the same prompt (to another
  prompt if there is none). The change of the same judges on a reference in this run is subtracted. If neither system
  nor judges have changed, both parts are symmetric. A shift that all scores of a judge share cancels.

If differences d are symmetric given earlier ones, the mean of exp(l d) / cosh(l d) is 1 for every l. A capital of 1
that is bet on shifts reaches 1 / a with a probability of at most a (Ville 1939). It is divided in advance over sizes of
bets and over the runs in which the change may have come. The share that grew most names the run.

Differences with a common score are not symmetric together, so they belong to different rounds with separate capitals.
Round r, from 1, is reported at a / (r (r + 1)); all rounds together have a.

Assumptions: the scores of one answer by an unchanged judge have one distribution, and so have the old and new answers
of an unchanged system. The choice of new answers and of references does not depend on scores. A test cannot detect a
change that leaves every difference symmetric, such as additional noise. If a judge changes on new answers but not on
references, the test attributes this change to the system.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from care_ops.records import ChangePoint
from care_ops.scores import Array

FALSE_ALARMS = 0.05
"""Largest probability, over all runs, that a judge or a system that does not change is reported."""

_BETS = tuple(sign * 2.0**k for k in range(6) for sign in (-1.0, 1.0))
"""Sizes of the bets, in 1 / scale: the smallest suits a shift by the whole scale, the largest by a 30th."""


@dataclass(frozen=True)
class Difference:
    """Difference between two scores of a judge, or between two answers of a system.

    Attributes
    ----------
    run_date : int
        Day of the run, as ``date.toordinal`` counts.
    size : float
        In shares of the scale.
    round : int
        From 1; no score is in two differences of a round.
    """

    run_date: int
    size: float
    round: int = 1


@dataclass(frozen=True)
class Answer:
    """Answer of a system: its prompt, key, day of scoring, and scores by judge (shares of the scale)."""

    prompt: str
    key: str
    run_date: int
    scores: Mapping[str, float]


References = Mapping[int, Sequence[tuple[str, Mapping[str, float]]]]
"""By run date, the references asked again: key, and by judge how far its score moved, in shares."""


def first_free(taken: MutableMapping[str, set[int]], keys: Iterable[str]) -> int:
    """Return the first round that none of these scores is in, and mark them as used there."""
    sets = [taken.setdefault(key, set()) for key in keys]
    free = next(k for k in count(1) if not any(k in rounds for rounds in sets))
    for rounds in sets:
        rounds.add(free)
    return free


def log_capitals(runs: Sequence[Array]) -> Array:
    """Return the logarithm of the capital that the share of each run has won by each run.

    Parameters
    ----------
    runs : sequence of T (m,) arrays
        Differences of each run, at least one, in shares of the scale.

    Returns
    -------
    (T, T) array
        Row t, column k: after run t, of the share that waits for run k; what it was given is counted.
    """
    k = np.arange(1, len(runs) + 1)
    stakes = np.array(_BETS)[:, None] * np.concatenate(runs)
    starts = np.cumsum([0, *(len(run) for run in runs[:-1])])
    wins = np.add.reduceat(stakes - np.logaddexp(stakes, -stakes) + np.log(2.0), starts, axis=1)
    shares = np.full((len(k), len(k)), -np.inf)
    for won in np.cumsum(wins, axis=1):
        shares = np.logaddexp(shares, won[:, None] - np.r_[0.0, won[:-1]][None, :])
    return np.where(k[None, :] <= k[:, None], shares - np.log(len(_BETS)), 0.0) - np.log(k * (k + 1.0))[None, :]


def change(found: Iterable[Difference], false_alarms: float) -> ChangePoint | None:
    """Find the first evidence of a change, and its most likely cause; None without evidence.

    Parameters
    ----------
    found : differences
    false_alarms : float
        Largest probability, over all runs, of evidence of a change if nothing changed.
    """
    rounds = defaultdict[int, dict[int, list[float]]](dict)
    for each in found:
        rounds[each.round].setdefault(each.run_date, []).append(each.size)
    changes = (_of_round(runs, false_alarms / (k * (k + 1))) for k, runs in rounds.items())
    return min((one for one in changes if one is not None), key=lambda one: one.detected, default=None)


def _of_round(differences: Mapping[int, Sequence[float]], false_alarms: float) -> ChangePoint | None:
    days = sorted(differences)
    runs = [np.array(differences[day], dtype=np.float64) for day in days]
    shares = log_capitals(runs)
    waiting = 1.0 / (len(runs) + 1.0)  # of runs to come
    capital = np.logaddexp(np.logaddexp.reduce(shares, axis=1), np.log(waiting))
    reached = np.flatnonzero(capital >= -np.log(false_alarms))
    if not len(reached):
        return None
    detected = int(reached[0])
    k = np.arange(1, detected + 2)
    run = int(np.argmax(shares[detected, : detected + 1] + np.log(k * (k + 1.0))))
    since = np.concatenate(runs[run : detected + 1])
    return ChangePoint(days[run], days[detected], float(since.mean()))


def of_system(
    before: Sequence[Answer], new: Iterable[Answer], references: References, moving: Collection[str], most: int
) -> Iterator[Difference]:
    """Return a system's differences, run by run.

    Parameters
    ----------
    before, new : answers
        From when the judges were anchored, and since.
    references : references by run date
    moving : judges
        Those that could change unnoticed. Their part in a difference needs a reference of that run; of other judges
        none is taken off.
    most : int
        New answers that are compared in a run.
    """
    taken, of_prompt = defaultdict[str, set[int]](set), defaultdict[str, deque[Answer]](deque)
    everything = deque(sorted(before, key=lambda each: each.key))  # keys are hashes: no order of the scores'
    for answer in everything:
        of_prompt[answer.prompt].append(answer)
    by_run = defaultdict[int, list[Answer]](list)
    for answer in new:
        by_run[answer.run_date].append(answer)

    def turn(answer: Answer) -> deque[Answer]:
        return of_prompt.get(answer.prompt, everything)

    def order(answer: Answer) -> tuple[int, str]:
        return len(taken[turn(answer)[0].key]), answer.key

    for run in sorted(by_run) if before else ():
        free = list(references.get(run, ()))
        for answer in sorted(by_run[run], key=order)[:most]:
            then = turn(answer)[0]
            judges = answer.scores.keys() & then.scores.keys()
            asked = judges & {*moving}
            reference = next((each for each in free if asked & each[1].keys()), None) if asked else None
            moved = {} if reference is None else reference[1]
            judges = {judge for judge in judges if judge not in asked or judge in moved}
            if not judges:
                continue
            turn(answer).rotate(-1)
            keys = [answer.key, then.key]
            if reference is not None:
                free.remove(reference)
                keys.append(reference[0])
            size = sum(answer.scores[j] - then.scores[j] - moved.get(j, 0.0) for j in judges) / len(judges)
            yield Difference(run, size, first_free(taken, keys))


def of_judges(changed: Mapping[str, ChangePoint]) -> list[str]:
    """Write a sentence for each judge with evidence of a change."""
    message = "Judge {} changed: its scores of the same answers {} {}."
    return [message.format(name, one.direction, one) for name, one in changed.items()]


def of_systems(changed: Mapping[str, ChangePoint], judges: Mapping[str, ChangePoint]) -> list[str]:
    """Write a sentence for each system with evidence of a change, unless one of its judges also changed."""
    held = f" This is held until {', '.join(judges)} has new reference scores." if judges else ""
    return [f"System {name} {one.direction} {one}.{held}" for name, one in changed.items()]
