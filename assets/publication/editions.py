"""What a person does with kept editions: list them, compare two, publish one by hand, score items with a pinned one.

Belongs here: those actions. Belongs elsewhere: making editions (``assets.fit``), the nightly verdict (``review``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from assets.fit.stages import recommended
from assets.judge_keys import keys_of_judges
from assets.publication.documents import ReviewDocument
from assets.workspace import Workspace
from care_ops.errors import FitError, InputError

if TYPE_CHECKING:
    from care_ops.scores import ScoreMatrix
    from warehouse.fits import Edition, FitRecord, Publication

_log = logging.getLogger(__name__)

_ITEMS_COMPARED = 10
"""Items that a comparison of two fits names, those that moved most."""


def find(workspace: Workspace, edition: str) -> Edition:
    """An edition by its id, the beginning of it, or the id of one of its fits.

    Raises
    ------
    InputError
        There is none, or several begin so.
    """
    candidates = {
        kept.edition: kept
        for testset in workspace.testsets
        for kept in workspace.fits.editions(testset)
        if kept.edition.startswith(edition) or edition in kept.fits.values()
    }
    if len(candidates) != 1:
        what = "no kept fit has" if not candidates else f"{len(candidates)} kept fits begin with"
        raise InputError(f"{what} {edition!r}; `care history` lists them")
    return next(iter(candidates.values()))


def history(workspace: Workspace, testset: str) -> list[dict[str, Any]]:
    """Every kept edition of a test set, newest first, with what changed against the one before."""
    return [row for _, row in _nights(workspace, testset)[::-1]]


def trend(workspace: Workspace, testset: str, most: int) -> list[dict[str, Any]]:
    """The latest rows of ``history``, oldest first, with the order by aggregator."""
    return [
        {**row, "orders": {name: order_of(workspace, edition, name) for name in edition.fits}}
        for edition, row in _nights(workspace, testset)[-most:]
    ]


@dataclass(frozen=True)
class HeldBack:
    """The latest fit of a test set, which waits for a person, and what people read meanwhile.

    Attributes
    ----------
    edition, made_at : str
        Of the fit that is held back.
    says : list of str
        What the checks that hold it back found.
    published, published_made_at : str or None
        Of the fit that is published; None where none has been.
    """

    edition: str
    made_at: str
    says: list[str]
    published: str | None
    published_made_at: str | None

    def reading(self) -> str:
        """What people read meanwhile, as a sentence."""
        from care_ops.results.verdict import minute_of

        if self.published is None:
            return "Nothing is published yet."
        return f"People read fit {self.published}, made {minute_of(self.published_made_at)}."


def held_back(workspace: Workspace, testset: str) -> HeldBack | None:
    """Whether the latest fit of a test set waits for a person."""
    review = ReviewDocument.find(workspace.fit_folder(testset))
    if review is None or review.state != "held back":
        return None
    published = workspace.fits.published(testset)
    if published is not None and published[1].edition == review.edition:
        return None
    made_at = next((e.made_at for e in workspace.fits.editions(testset) if e.edition == review.edition), "")
    return HeldBack(
        review.edition,
        made_at,
        [finding.says for finding in review.findings if finding.holds_back],
        published[1].edition if published else None,
        published[1].made_at if published else None,
    )


def _nights(workspace: Workspace, testset: str) -> list[tuple[Edition, dict[str, Any]]]:
    """Every kept edition, oldest first, and its row."""
    log = workspace.fits.publications(testset)
    current = log[-1].edition if log else None
    waiting = held_back(workspace, testset)
    rows: list[tuple[Edition, dict[str, Any]]] = []
    before: Edition | None = None
    for edition in workspace.fits.editions(workspace.testset(testset).name):
        published = [p for p in log if p.edition == edition.edition]
        state = "" if not published else "published" if edition.edition == current else "was published"
        if edition.edition == current and log[-1].pinned:
            state = "pinned"
        if waiting is not None and edition.edition == waiting.edition:
            state = "held back"
        name = recommended(edition.fits)
        row = {
            "edition": edition.edition,
            "made at": edition.made_at[:19],
            "state": state,
            "judges": len(edition.inputs.admitted),
            "order": order_of(workspace, edition, name) if name else None,
            "why": "; ".join(reasons(before, edition)) if before else "the first",
        }
        rows.append((edition, row))
        before = edition
    return rows


def order_of(workspace: Workspace, edition: Edition, aggregator: str) -> float | None:
    """How well an edition's aggregate orders the items: AUC, or Kendall's tau; None without gold."""
    from warehouse.fits import EvaluationRecord

    evaluation = workspace.fits.find_annotation(edition.testset, edition.fits[aggregator], EvaluationRecord)
    return None if evaluation is None else evaluation.order


def reasons(before: Edition, after: Edition) -> list[str]:
    """What of an edition's inputs differs from another's, in words."""
    old, new = before.inputs, after.inputs
    added, removed = new.slices.keys() - old.slices.keys(), old.slices.keys() - new.slices.keys()
    rescored = {judge for judge in new.slices.keys() & old.slices.keys() if new.slices[judge] != old.slices[judge]}
    sentences: list[str] = []
    for change, judges in (("new judge", added), ("judge gone", removed), ("scores changed", rescored)):
        if judges:
            named = ", ".join(sorted(judges)[:4])
            sentences.append(f"{change}: {named}" + (f" and {len(judges) - 4} more" if len(judges) > 4 else ""))
    dropped = sorted((old.admitted - new.admitted) & new.slices.keys())
    if dropped:
        sentences.append(f"no longer admitted: {', '.join(dropped[:4])}")
    if old.code != new.code:
        sentences.append("another version of the code")
    told = changed_labels(before, after)
    if told is not None:
        sentences.append(told)
    elif old.settings != new.settings and not added and not removed:
        sentences.append("settings changed" if old.labels is not None else "settings or anchors changed")
    return sentences or ["made again"]


@dataclass(frozen=True)
class Measure:
    """How what a test set is measured with differs from what an edition was measured with.

    Attributes
    ----------
    labels : list of str
        Items whose label has been corrected or is gone.
    judges : list of str
        Judges that score in another way, or not at all.
    """

    labels: list[str]
    judges: list[str]


def measure_since(workspace: Workspace, edition: Edition, labels: Mapping[str, float]) -> Measure:
    """Whether an edition and tonight's scores can be spoken of together, by the labels of now.

    Raises
    ------
    InputError
        The edition was made by a release that did not keep what it was measured with.
    """
    then = edition.inputs
    if then.labels is None or then.judges is None:
        raise InputError(
            f"fit {edition.edition} was made by a release that did not keep its labels and its judges' keys; name a "
            f"later one (`care history {edition.testset}`)"
        )
    now = keys_of_judges(workspace, edition.testset)
    return Measure(
        sorted(item for item, label in then.labels.items() if labels.get(item) != label),
        sorted(judge for judge, key in then.judges.items() if judge in then.admitted and now.get(judge) != key),
    )


def changed_labels(before: Edition, after: Edition) -> str | None:
    """How the labels that two editions have seen differ; None where they do not, or those of one are not known."""
    old, new = before.inputs.labels, after.inputs.labels
    if old is None or new is None:
        return None
    counts = {
        "new": len(new.keys() - old.keys()),
        "gone": len(old.keys() - new.keys()),
        "corrected": sum(old[item] != new[item] for item in old.keys() & new.keys()),
    }
    return "labels: " + ", ".join(f"{n} {what}" for what, n in counts.items() if n) if any(counts.values()) else None


@dataclass(frozen=True)
class Difference:
    """What moved between two editions of a test set, by one aggregator.

    Attributes
    ----------
    why : list of str
    judges : list of dict
        judge, weight before and after (None where the judge was not there), largest change first.
    items : list of dict
        item_id, estimate before and after, change in standard deviations of the earlier estimates; the furthest first.
    order : float or None
        Rank correlation (Spearman) of the estimates of the items that both have; None where it is undefined.
    """

    why: list[str]
    judges: list[dict[str, Any]]
    items: list[dict[str, Any]]
    order: float | None


def difference(workspace: Workspace, before: Edition, after: Edition, aggregator: str) -> Difference:
    """Compare two editions.

    Raises
    ------
    InputError
        They are of different test sets, or one lacks the aggregator.
    """
    import numpy as np

    from care_ops.metrics import rank_correlation

    if before.testset != after.testset:
        raise InputError(f"{before.edition} is of {before.testset!r} and {after.edition} of {after.testset!r}")
    fits = [_fit(workspace, edition, aggregator) for edition in (before, after)]
    old, new = (dict(zip(fit.judges, fit.weights, strict=True)) for fit in fits)
    names = sorted(old.keys() | new.keys(), key=lambda j: (-abs((new.get(j) or 0.0) - (old.get(j) or 0.0)), j))
    judges = [{"judge": j, "before": old.get(j), "after": new.get(j)} for j in names]
    then, now = (
        {i: v for i, v in zip(fit.item_ids, fit.estimate.to_pylist(), strict=True) if v is not None} for fit in fits
    )
    spread = _spread(list(then.values()))
    moved = {i: (now[i] - then[i]) / spread for i in then.keys() & now.keys()}
    furthest = sorted(moved, key=lambda i: (-abs(moved[i]), i))
    items = [{"item_id": i, "before": then[i], "after": now[i], "moved": moved[i]} for i in furthest[:_ITEMS_COMPARED]]
    order = rank_correlation(np.array([then[i] for i in furthest]), np.array([now[i] for i in furthest]))
    return Difference(reasons(before, after), judges, items, None if np.isnan(order) else order)


def _spread(values: list[float]) -> float:
    mean = sum(values) / len(values) if values else 0.0
    variance = sum((v - mean) ** 2 for v in values) / len(values) if values else 0.0
    return variance**0.5 or 1.0


def _fit(workspace: Workspace, edition: Edition, aggregator: str) -> FitRecord:
    if aggregator not in edition.fits:
        raise InputError(f"fit {edition.edition} has no {aggregator!r}; it has {', '.join(edition.fits)}")
    return workspace.fits.read_fit(edition.testset, edition.fits[aggregator])


def publish(workspace: Workspace, publication: Publication) -> None:
    """Make an edition the one that people read, in the files and in the database."""
    workspace.fits.publish(publication)
    _log.info("%s: fit %s is published by %s", publication.testset, publication.edition, publication.published_by)
    store_log(workspace, publication.testset)


def store_log(workspace: Workspace, testset: str) -> None:
    """Make the database's publications of a test set those of the log, which is the record.

    Also where the log was written by a run that was killed before it came to the database.
    """
    from warehouse.fit_rows import load_publications

    with workspace.warehouse.writer() as connection:
        load_publications(connection, workspace.fits, testset)


def promote(workspace: Workspace, edition: Edition, *, by: str, why: str, pinned: bool) -> None:
    """Make a kept edition the published one, by hand; its rows in the database are stored anew.

    Raises
    ------
    WarehouseError
        A fit of the edition is damaged or gone; what was published before stays.
    """
    from warehouse.fit_rows import load_edition
    from warehouse.fits import Publication

    with workspace.warehouse.writer() as connection:
        load_edition(connection, workspace.fits, edition)
    publish(workspace, Publication(edition.testset, edition.edition, by, why, pinned))


def evaluate_first(workspace: Workspace, latest: Edition) -> None:
    """Evaluate the latest edition where that has not been done yet, so that readers find no published fit without."""
    from assets.results.evaluation import evaluate_latest
    from warehouse.fits import EvaluationRecord

    find, testset = workspace.fits.find_annotation, latest.testset
    if any(find(testset, fit_id, EvaluationRecord) is None for fit_id in latest.fits.values()):
        evaluate_latest(workspace, testset)


def accept(workspace: Workspace, testset: str, why: str) -> Edition:
    """Publish the latest edition, by hand; evaluated first, where the night has not come to that.

    Raises
    ------
    InputError
        There is no edition.
    """
    editions = workspace.fits.editions(testset)
    if not editions:
        raise InputError(f"test set {testset!r} has no fit yet; run `care run` first")
    latest = editions[-1]
    evaluate_first(workspace, latest)
    promote(workspace, latest, by="accept", why=why, pinned=False)
    return latest


def rollback(workspace: Workspace, testset: str, why: str) -> Edition:
    """Publish and pin what was published before the current one.

    Raises
    ------
    InputError
        There is nothing to go back to.
    """
    kept = {e.edition: e for e in workspace.fits.editions(testset)}
    log = workspace.fits.publications(testset)
    for publication in reversed(log[:-1]):
        if publication.edition != log[-1].edition and publication.edition in kept:
            edition = kept[publication.edition]
            promote(workspace, edition, by="rollback", why=why, pinned=True)
            return edition
    raise InputError(f"test set {testset!r} has no earlier published fit that is kept; see `care history {testset}`")


def score(workspace: Workspace, edition: Edition, aggregator: str, scores: ScoreMatrix) -> list[dict[str, Any]]:
    """Score items with a kept fit, which is not made again.

    Raises
    ------
    FitError
        The aggregator does not follow from one item's scores, or a judge of the fit is missing.
    """
    from care_ops.frozen import Frozen
    from warehouse.fits import FrozenRecord

    fit = _fit(workspace, edition, aggregator)
    stored = workspace.fits.find_annotation(edition.testset, fit.fit_id, FrozenRecord)
    if stored is None:
        raise FitError(f"fit {edition.edition} was kept without the function that scores new items; run `care run`")
    estimate = Frozen.from_dict(asdict(stored)).apply(scores)
    return [
        {"item_id": i, "estimate": None if e != e else float(e)} for i, e in zip(scores.item_ids, estimate, strict=True)
    ]


def extend(workspace: Workspace, edition: Edition) -> int:
    """Score items that came after a pinned edition was made with its frozen fits; returns how many.

    Items of the latest panel: what no judge has scored yet waits for the night that does. Aggregators that do not
    follow from one item's scores leave the new items without an estimate.
    """
    from dataclasses import replace

    import numpy as np
    import pyarrow as pa

    from care_ops.frozen import FAITHFUL
    from warehouse.fit_rows import store_fit
    from warehouse.fits import FrozenRecord
    from warehouse.matrix import read_scores

    testset = edition.testset
    with workspace.warehouse.reader() as connection:
        read = read_scores(connection, testset, set(workspace.judges_of(testset))).scores
    judged, added = set(workspace.fit_folder(testset).read_panel().item_ids), 0
    for aggregator in edition.fits:
        fit = _fit(workspace, edition, aggregator)
        frozen = workspace.fits.find_annotation(testset, fit.fit_id, FrozenRecord)
        known = set(fit.item_ids)
        fresh = np.array([item in judged and item not in known for item in read.item_ids])
        if not fresh.any() or frozen is None or frozen.fidelity < FAITHFUL:
            continue
        rows = score(workspace, edition, aggregator, read.select_items(fresh))
        nothing = pa.nulls(len(rows), pa.float64())
        longer = replace(
            fit,
            item_ids=[*fit.item_ids, *(row["item_id"] for row in rows)],
            estimate=pa.concat_arrays([fit.estimate, pa.array([row["estimate"] for row in rows], pa.float64())]),
            sd=pa.concat_arrays([fit.sd, nothing]),
            p_quality=pa.concat_arrays([fit.p_quality, nothing]),
        )
        workspace.fits.write_fit(longer)
        with workspace.warehouse.writer() as connection:
            store_fit(connection, longer)
        added = max(added, len(rows))
    return added
