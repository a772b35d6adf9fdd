"""``care``, the recommended answer: safe where a panel is ambiguous, sharper where it is clear, decided by anchors.

First, what single judges like about the texts is taken off where it is plain, and near-copies become one voice
(``defensible``). The safe answer is then the mean of the voices, where those of one declared family are heard about
once. Scores are averaged in their own units where a scale is declared, and standardised otherwise. The sharp answer
weighs the voices by what they share with all others, in a decomposition of their correlation into one common factor
and sparse direct dependence that a few wrong pairs cannot turn (``models.robust_factor``); it weighs scores, or
ranks where the judges agree more by these.

The sharp answer has half of the whole where one factor explains what the voices share, and less where it does not,
or where it follows a feature of the texts more than the safe one. Why the result may still be wrong is said by
``doubts``.

With anchors the answer is an average over hypotheses (``hypotheses.average_hypotheses``), among which are the plain
mean, each oblique factor, and the answer without what a feature of the texts explains. Twenty binary anchors of a
probability sample also give a probability and a threshold (``calibration.probability_curve``).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata

from care_ops.aggregators.base import Problem, unit_weights
from care_ops.aggregators.defensible import Defensible, defensible
from care_ops.aggregators.doubts import doubts_of, followed_feature, signal_of
from care_ops.aggregators.latent import family_of
from care_ops.calibration import probability_curve, to_panel_scale
from care_ops.least import FOLLOWS, LABELS_TO_CONFIRM
from care_ops.metrics import changed
from care_ops.models.hypotheses import Hypothesis, ModelAverage, average_hypotheses
from care_ops.models.probes import doubted, evidence_of, weigh
from care_ops.records import Aggregate
from care_ops.samples import is_sampled
from care_ops.scores import Array, rows_of

_RIVAL_BELOW = 0.5
"""Correlation with the answer below which a label tells most where the answer and a factor part."""

_PRIORS = {"mean": 0.20, "care": 0.30, "families": 0.20, "factors": 0.20, "without": 0.10}
"""Prior probabilities of what quality may follow; the oblique factors share theirs equally. Where no feature of the
texts is known, the others share the last one."""

_FOLDS = 10
"""In which labels are held against answers that have not seen them."""

_TOLD_APART = 1e-3
"""Singular value of the scores, as a share of the largest, below which a difference of judges has no weight: copies
that were rounded differ by less, and share their weight as exact copies do."""


def care(problem: Problem) -> Aggregate:
    """``care``: two answers that need no label, mixed; the head of this module says how.

    Raises ``FitError`` where there are fewer than three judges or ten items, or a judge does not vary.
    """
    answers = defensible(problem)
    candidates = candidates_of(answers)
    latent = answers.latent
    details = evidence(problem, answers, candidates)
    z = problem.filled
    hypotheses, alone = told_by_probes(problem, candidates.hypotheses)
    if alone:
        latent = np.sum([h.prior * h.score for h in alone], axis=0)
        details["by_probes"] = {h.name: h.prior for h in alone}
        details["declared"] = {
            kind: "spoils" if spoils else "keeps" for kind, spoils in sorted(problem.probes.spoils.items())
        }
    rows, _ = problem.anchors.rows(problem.scores.item_ids)
    if len(rows):
        average = averaging(problem, answers)(hypotheses)
        if average is not None:
            latent = average.latent
            turned = round(float(np.corrcoef(latent[answers.scored], answers.latent[answers.scored])[0, 1]), 4)
            at_random = round(average.nothing, 4)
            details |= {"hypotheses": average.weights, "labels_at_random": at_random, "turned": turned}
            details["beside_mean"] = asdict(changed(latent[answers.scored], answers.mean[answers.scored]))
    latent = latent - latent[answers.scored].mean()
    latent = np.where(answers.scored, latent, np.nan)
    estimate, offset, unit = to_panel_scale(latent, problem.panel_mean, problem.ends)
    threshold, p_quality = problem.cut, None
    spread = float(latent[answers.scored].std())
    curve = _calibrated(problem, answers, hypotheses) if spread > 0 else None
    if problem.anchors.left_out:
        details["labels_not_of_a_sample"] = problem.anchors.left_out
    if curve is not None:
        p_quality = np.interp(latent / spread, *curve)
        threshold = offset + unit * spread * float(np.interp(0.5, curve[1], curve[0]))
        details["threshold"] = "where the labels make P(Q = 1) one half"
    return Aggregate(
        "care",
        estimate,
        threshold=threshold,
        sd=np.where(answers.scored, answers.sd * unit * spread, np.nan),
        p_quality=p_quality,
        weights=unit_weights(_weights(answers, z, latent)),
        latent=latent,
        labels_used=len(rows),
        details=details,
    )


@dataclass(frozen=True)
class Candidates:
    """The hypotheses that labels weigh, and the factor that rivals the answer.

    Attributes
    ----------
    rival : (n,) array or None
        The factor least like the answer among those that several judges follow; None where fewer than two are followed.
    rival_correlation : float or None
        Absolute correlation of the rival with the answer.
    """

    hypotheses: list[Hypothesis]
    rival: Array | None
    rival_correlation: float | None

    @property
    def rivalled(self) -> bool:
        """Whether the rival correlates so little with the answer that it is another answer."""
        return self.rival_correlation is not None and self.rival_correlation < _RIVAL_BELOW


def candidates_of(answers: Defensible) -> Candidates:
    """The hypotheses that labels weigh, with their prior probabilities, and the rival among the factors."""
    factors = factors_of(answers)
    hypotheses = [
        Hypothesis("mean", answers.mean, _PRIORS["mean"]),
        Hypothesis("care", answers.latent, _PRIORS["care"]),
        Hypothesis("families", answers.families, _PRIORS["families"]),
        *(Hypothesis(f"factor {k + 1}", f, _PRIORS["factors"] / len(factors.T)) for k, f in enumerate(factors.T)),
    ]
    if answers.without is not None:
        hypotheses.append(Hypothesis(f"without {answers.nearest}", answers.without, _PRIORS["without"]))
    total = sum(hypothesis.prior for hypothesis in hypotheses)
    hypotheses = [replace(hypothesis, prior=hypothesis.prior / total) for hypothesis in hypotheses]
    if len(answers.followed) < 2:
        return Candidates(hypotheses, None, None)
    correlations = np.abs(answers.latent @ answers.factors[:, answers.followed]) / int(answers.scored.sum())
    least = int(np.argmin(correlations))
    return Candidates(hypotheses, answers.factors[:, answers.followed[least]], float(correlations[least]))


def factors_of(answers: Defensible) -> Array:
    """The oblique factors that quality may follow: of the voices, and of the judges as they are, (n, k)."""
    return np.column_stack([answers.factors, answers.plain])


def departures_of(answers: Defensible, judges: Array) -> Array:
    """What labels may depart along beside the factors: the judges' scores (n, p), and the features of the texts."""
    features = (np.where(answers.scored, w, 0.0) for w in answers.features.values())
    return np.column_stack([judges, *features])


def evidence(problem: Problem, answers: Defensible, candidates: Candidates) -> dict[str, Any]:
    """What is to be known of the answer that no label has touched: doubts, copies, likings, how it differs."""
    judges = problem.scores.judges
    families = len({family_of(judge, problem.scores.families) for judge in judges})
    doubts = doubts_of(answers, candidates.rival_correlation, families)
    meant = None if answers.copied is None else answers.copied.voice  # is named first
    voices = sorted(rows_of(map(str, answers.voices)).values(), key=lambda voice: answers.voices[voice[0]] != meant)
    said: dict[str, Any] = {
        "agreement": answers.agreement,
        "factors": answers.factors.shape[1],
        "rival": candidates.rival_correlation,
        "ambiguous": bool(doubts),
        "doubts": list(doubts),
        "share_of_factor": answers.share,
        "families": families,
        "label_first": label_first(problem.scores.item_ids, answers, candidates),
        "scale": "location and spread of the panel mean",
        "copies": [[judges[j] for j in voice] for voice in voices if len(voice) > 1],
        "follows": {name: round(value, 4) for name, value in answers.follows.items()},
        "parted_by": _parted_by(answers, candidates),
        "features": sorted(problem.scores.features),
        "taken_off": {name: round(liking.removed, 4) for name, liking in answers.likings.items() if liking.removed > 0},
        "beside_mean": asdict(changed(answers.latent[answers.scored], answers.mean[answers.scored])),
    }
    if answers.structure is not None:
        said |= {"misfit": answers.structure.misfit, "signal": signal_of(answers)}
    if answers.kept is not None:
        said["kept"] = asdict(changed(answers.kept[answers.scored], answers.families[answers.scored]))
    if answers.without is not None:
        said["without"] = asdict(changed(answers.without[answers.scored], answers.latent[answers.scored]))
    return said


def averaging(problem: Problem, answers: Defensible) -> partial[ModelAverage | None]:
    """What averages hypotheses by the panel's anchors, ready for many lists of them; None where these do not differ."""
    rows, labels = problem.anchors.rows(problem.scores.item_ids)
    counts = problem.anchors.counts_of([problem.scores.item_ids[int(row)] for row in rows])
    departures = departures_of(answers, problem.filled)
    return partial(
        average_hypotheses, factors=factors_of(answers), judges=departures, rows=rows, labels=labels, counts=counts
    )


def told_by_probes(problem: Problem, hypotheses: list[Hypothesis]) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """What labels are to weigh once probes have spoken, and the hypotheses by probes alone; none if they say nothing.

    Alone, whatever of the responses is noise speaks for ``care`` without probes; beside labels, for the usual priors.
    """
    evidence = evidence_of(problem.panel_probes, problem.scale)
    if evidence is None:
        return hypotheses, []
    told = weigh(hypotheses, evidence, problem.filled)
    alone = doubted(told, evidence.signal, {"care": 1.0})
    return doubted(told, evidence.signal, {h.name: h.prior for h in hypotheses}), alone


def label_first(item_ids: Sequence[str], answers: Defensible, candidates: Candidates, most: int = 10) -> list[str]:
    """At most ``most`` items on which the two ``rival_answers`` differ most in rank: a label there tells the most."""
    rank_difference = disagreement(answers, candidates)
    order = np.argsort(-rank_difference, kind="stable")[:most]
    return [item_ids[int(i)] for i in order if rank_difference[int(i)] > 0]


def _calibrated(problem: Problem, answers: Defensible, hypotheses: list[Hypothesis]) -> tuple[Array, Array] | None:
    """``calibration.probability_curve`` by the labels of 0 and 1 on which estimates may rest.

    Each label is held against an answer by the labels of the other folds, which alone shows how steep the logit is.
    """
    item_ids = problem.scores.item_ids
    rows, labels = problem.anchors.rows(item_ids)
    named = [item_ids[int(row)] for row in rows]
    weights, counts = problem.anchors.weights(named), problem.anchors.counts_of(named)
    if not problem.anchors.binary or np.count_nonzero(weights) < LABELS_TO_CONFIRM:
        return None
    average, unseen = averaging(problem, answers), np.empty(len(rows))
    fold = rankdata(rows, method="ordinal").astype(int) % _FOLDS
    for held in range(_FOLDS):
        seen = fold != held
        found = average(hypotheses, rows=rows[seen], labels=labels[seen], counts=counts[seen])
        latent = answers.latent if found is None else found.latent
        scored = latent[answers.scored]
        unseen[~seen] = ((latent - scored.mean()) / scored.std())[rows[~seen]]
    used = answers.scored[rows] & (weights > 0)
    return probability_curve(unseen[used], labels[used], weights[used])


def disagreement(answers: Defensible, candidates: Candidates) -> Array:
    """By how many ranks the two ``rival_answers`` differ on each item, shape (n,); 0 on items without a score."""
    first, second = rival_answers(answers, candidates).values()
    return np.abs(rankdata(first) - rankdata(second)) * answers.scored


def _parted_by(answers: Defensible, candidates: Candidates) -> str | None:
    """The feature of the texts that the difference of the two ``rival_answers`` follows; None where it follows none."""
    first, second = (answer[answers.scored] for answer in rival_answers(answers, candidates).values())
    size = float(np.linalg.norm(first - second)) * len(first) ** 0.5
    if size == 0.0:
        return None
    follows = {name: abs(float((first - second) @ w[answers.scored])) / size for name, w in answers.features.items()}
    nearest = max(follows, key=lambda name: follows[name], default=None)
    return nearest if nearest is not None and follows[nearest] >= FOLLOWS else None


def rival_answers(answers: Defensible, candidates: Candidates) -> dict[str, Array]:
    """Two defensible answers that labels would decide between, by what they are.

    The mean of the families and the factor; or ``care`` and, where there is one, what judges say that may be better
    than the others, what is left of it without the feature that it follows, or its rival.
    """
    if answers.copied is not None:
        return {"care without labels": answers.latent, "judges that say one same thing": answers.copied.says}
    if answers.without is not None and followed_feature(answers) is not None:
        return {"care without labels": answers.latent, f"without {answers.nearest}": answers.without}
    if candidates.rivalled and candidates.rival is not None:
        return {"care without labels": answers.latent, "its rival factor": candidates.rival}
    return {"mean of the families": answers.families, "one common factor": answers.factor}


def _weights(answers: Defensible, z: Array, latent: Array) -> Array:
    """The judges' weights in the answer, by regression of it on their scores where the model does not say them."""
    if answers.weights is not None:
        return answers.weights
    p = z.shape[1]
    z = departures_of(answers, z)  # what was taken off for a feature is no judge's weight
    if is_sampled(len(z)):  # by the normal equations, without a copy of the scores; items without any are 0 in z
        normal, said = z.T @ z, z.T @ np.where(answers.scored, latent, 0.0)
        return np.linalg.lstsq(normal, said, rcond=_TOLD_APART**2)[0][:p].astype(np.float64)
    return np.linalg.lstsq(z[answers.scored], latent[answers.scored], rcond=_TOLD_APART)[0][:p].astype(np.float64)
