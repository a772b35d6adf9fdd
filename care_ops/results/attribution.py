"""Attribution of a change to a system or to a judge, by sequential tests that hold over all runs.

In each run, each judge scores new answers of the systems. It also scores a few references again, which are answers that
it scored when its reference scores were stored.

- A judge's difference is its new score of a reference minus its old score. If the judge has not changed, the two are
  exchangeable, so their difference is symmetric about 0, whatever the systems do.
- A system's difference is the mean score of a new answer minus that of an earlier answer to the same prompt (to another
  prompt if there is none). The change of the same judges on a reference in this run is subtracted. If neither system
  nor judges have changed, both parts are symmetric. A shift that all scores of a judge share cancels.

If differences d are symmetric given earlier ones, the mean of exp(l d) / cosh(l d) is 1 for every l. A capital of 1
that is bet on shifts reaches 1 / a with a probability of at most a (Ville 1939). This capital is divided in advance
over sizes of bets and possible runs of the change. The share that grew most identifies the run of the change.

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
"""Maximum probability, over all runs, that CARE reports a change of a judge or a system that has not changed."""

_BETS = tuple(sign * 2.0**k for k in range(6) for sign in (-1.0, 1.0))
"""Sizes of the bets, in 1 / scale: the smallest suits a shift by the whole scale, the largest a shift by 1/30."""


@dataclass(frozen=True)
class Difference:
    """Difference between two scores of a judge, or between the scores of two answers of a system.

    Attributes
    ----------
    run_date : int
        Day of the run, as ``date.toordinal`` counts.
    size : float
        Difference as a share of the scale.
    round : int
        Number of the round, from 1; no two differences of a round use the same score.
    """

    run_date: int
    size: float
    round: int = 1


@dataclass(frozen=True)
class Answer:
    """Answer of a system, with its prompt, key, day of scoring, and scores by judge as shares of the scale."""

    prompt: str
    key: str
    run_date: int
    scores: Mapping[str, float]


References = Mapping[int, Sequence[tuple[str, Mapping[str, float]]]]
"""References that were scored again, by run date: the key, and each judge's change in score as a share of the scale."""


def first_free(taken: MutableMapping[str, set[int]], keys: Iterable[str]) -> int:
    """Return the first round that uses none of these scores, and mark the scores as used in this round."""
    sets = [taken.setdefault(key, set()) for key in keys]
    free = next(k for k in count(1) if not any(k in rounds for rounds in sets))
    for rounds in sets:
        rounds.add(free)
    return free


def log_capitals(runs: Sequence[Array]) -> Array:
    """Compute, after each run, the log capital that is bet on a change in each run.

    Parameters
    ----------
    runs : sequence of T (m,) arrays
        Differences of each run as shares of the scale; each run has at least one difference.

    Returns
    -------
    (T, T) array
        Row t and column k: log capital after run t that is bet on a change in run k, including its initial share.
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
    """Find the change that is detected first, and estimate the run in which it began; None without evidence.

    Parameters
    ----------
    found : iterable of Difference
    false_alarms : float
        Maximum probability, over all runs, that a change is detected although nothing changed.
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
    """Yield the score differences between new and earlier answers of a system, run by run.

    Parameters
    ----------
    before, new : collections of Answer
        Answers scored up to the reference day, and answers scored later.
    references : References
    moving : collection of str
        Judges that could change without notice. A difference includes such a judge only if it scored a reference in
        that run; the change of that score is subtracted. Other judges need no reference.
    most : int
        Maximum number of new answers that are compared in a run.
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
    """Return a sentence for each judge with evidence of a change."""
    message = "Judge {} changed: its scores of the same answers {} {}."
    return [message.format(name, one.direction, one) for name, one in changed.items()]


def of_systems(changed: Mapping[str, ChangePoint], judges: Mapping[str, ChangePoint]) -> list[str]:
    """Return a sentence for each system with evidence of a change, with a caution if judges also changed."""
    held = f" This is held until {', '.join(judges)} has new reference scores." if judges else ""
    return [f"System {name} {one.direction} {one}.{held}" for name, one in changed.items()]
