"""State of a fit, and the reasons for it; a reason has a sentence and a ``detail``, which contains more numbers."""

from collections.abc import Sequence
from dataclasses import replace

from care_ops.admission import why_left_out
from care_ops.concerns import FOLLOWS_FEATURE, Changed, Concern
from care_ops.errors import capital, counted, listed
from care_ops.minimum_sizes import FOLLOWS, LABELS_TO_SETTLE, MIN_DISTINCT_JUDGES, MIN_ITEMS_TO_COMPARE, MIN_JUDGES
from care_ops.records import JudgeCheck
from care_ops.results.coverage import coverage_of, coverage_reasons
from care_ops.results.fit_facts import UNRELATED, FitFacts
from care_ops.results.judge_gate import GATE_QUESTION, gates_sentence
from care_ops.results.sides import reason_of_sides
from care_ops.results.verdict import MOST_NAMED, Reason, Remedies, State, Topic, condition_in
from care_ops.scores import ScoreMatrix
from care_ops.sparsity import FIT_GROUPS_REMEDY

_FEATURES_IN_WORDS = {
    "words_per_sentence": "the words per sentence",
    "list_items": "the number of list items",
    "numbers": "the count of numbers",
    "authority_markers": "the number of citations and links",
    "smog": "the reading grade (SMOG)",
    **{name: f"the number of {name}" for name in ("characters", "words", "sentences", "emoji")},
}
_UNCHANGED = 0.98
"""Minimum correlation between the estimates with and without labels at which labels agree with a clear panel."""


def feature_in_words(feature: str) -> str:
    """Return a text feature in words, such as "the number of words"."""
    return _FEATURES_IN_WORDS.get(feature.replace(" ", "_"), f"the {feature.replace('_', ' ')}")


def _in_words(features: Sequence[str]) -> str:
    return " and ".join(feature_in_words(name) for name in features)


def refused(facts: FitFacts) -> str | None:
    """Return the reason why a fit has no estimate; None if it has an estimate."""
    if len(facts.admitted) < MIN_JUDGES:
        return capital(f"{refusal(facts.admitted)}.")
    return None if facts.failure is None else f"There is no estimate: {facts.failure}."


def refusal(judges: Sequence[str]) -> str:
    """Return the reason why a panel of fewer than three judges is refused."""
    count = ("no judge", "one judge", "two judges")[len(judges)]
    named = f" ({', '.join(judges)})" if judges else ""
    return f"{count}{named} can be used, but a panel needs three: if two disagree, scores do not show which is wrong"


def too_few(scores: ScoreMatrix, checks: Sequence[JudgeCheck], *, loosen: str, declare: str) -> str:
    """Return a message that states why fewer than three judges can be used, and what to do."""
    coverage = coverage_of(scores, not_asked=False)
    if len(coverage.groups) > 1:
        return f"{coverage.falls_into()}; {FIT_GROUPS_REMEDY}"
    why = why_left_out(checks, loosen=loosen, declare=declare)
    return f"{refusal([c.judge for c in checks if c.admitted])}. Add scores of more judges. {why}".rstrip()


def state_of(facts: FitFacts) -> tuple[State, Reason]:
    """Return the state of an up-to-date fit with an estimate, and the first reason for this state."""
    if facts.labels is not None and facts.labels_contradict:
        message = "Your labels contradict your judges: check that a higher label is better, and check the labels' ids."
        detail = f"The estimates with and without these labels have a correlation of {facts.labels.turned:+.2f}."
        return "ambiguous", _reason(message, detail)
    state, first = _without_labels(facts)
    if state != "clear" and facts.labels is not None and facts.labels.settles:
        number = counted(facts.labels.labels, "label")
        message = f"According to {number}, the estimate ranks the items at least as well as the plain average."
        return "settled by labels", _reason(message, f"Without labels: {first.sentence}")
    return state, first


_STATES: dict[str, State] = {
    "few judges": "too little data",
    "few items": "too little data",
    "no common signal": "no common signal",
    "duplicates": "clear if",
    "feature": "clear if",
    "one family": "clear if",
}
"""State by the first concern; concerns that are not listed lead to *ambiguous*."""


def _without_labels(facts: FitFacts) -> tuple[State, Reason]:
    if facts.former_concerns and not facts.concerns:
        message = "An earlier release built this fit and had concerns about it; fit again to see the concerns."
        return "ambiguous", _reason(message)
    if facts.concerns:
        return _STATES.get(facts.concerns[0], "ambiguous"), _concern(facts, facts.concerns[0])
    if facts.rests_on_removal:
        verb = "is" if len(facts.removed) == 1 else "are"
        return "clear if", _reason(f"Use these scores only if {_in_words(facts.removed)} {verb} not part of quality.")
    if facts.asks_for_order:
        return "clear if", _trend(facts)
    judges, items = f"{len(facts.admitted)} judges", counted(facts.items, "item")
    if facts.weak:
        judges = f"{len(facts.admitted) - len(facts.weak)} of {judges}"
    if facts.coverage is not None and facts.coverage.unscored:
        items = f"{facts.items - facts.coverage.unscored:,} of {items}"
    message = f"{judges} give one ranking of {items}; only labels can show a mistake that most judges share."
    return "clear", _reason(message)


def _reason(message: str, detail: str = "", judges: tuple[str, ...] = ()) -> Reason:
    return Reason("ambiguity", message, judges, detail)


def _concern(facts: FitFacts, concern: Concern) -> Reason:
    independent = len(facts.admitted) - sum(len(names) - 1 for names in facts.duplicates)
    by = "" if facts.differing_feature is None else f", mostly by {feature_in_words(facts.differing_feature)}"
    by = f", even without {_in_words(facts.not_quality)}{by}" if facts.not_quality else by
    unknown = "scores cannot tell" if facts.labels is None else "your labels do not yet show"
    feature, rise = feature_in_words(str(facts.feature)), "rise" if facts.follows >= 0.0 else "fall"
    message, detail = {
        "few judges": (
            f"Only {independent} judges score independently, so CARE cannot detect a mistake that two of them share. "
            f"Use at least {MIN_DISTINCT_JUDGES} judges.",
            "",
        ),
        "few items": (
            f"{counted(facts.items, 'item')} are too few to compare the judges; {MIN_ITEMS_TO_COMPARE} are needed.",
            "",
        ),
        "no common signal": (
            "The judges hardly agree with one another, so there is nothing to combine.",
            f"The judges' median correlation with their common factor is {facts.signal:+.2f}.",
        ),
        "opposed": (
            f"At least a quarter of the judges rank the items in reverse; {unknown} which judges are right.",
            "Check whether some scales are reversed.",
        ),
        "two groups": (
            f"The judges form two groups that rank the items differently{by}; {unknown} which group is right.",
            f"A second factor is {facts.second_factor:.2f} times as strong as the first.",
        ),
        "alternatives": (
            f"Two plausible ways to combine the judges rank the items differently; {unknown} which ranking is right.",
            f"The estimate and {facts.alternative} have a rank correlation of only {facts.agreement:+.2f}.",
        ),
        "duplicates": (
            f"Use these scores only if {listed(facts.perhaps_duplicates, MOST_NAMED)} are not copies of one judge.",
            "Their scores are nearly identical: they may be copies, or better judges than the others.",
        ),
        "feature": (
            f"Use these scores only if {feature} is part of quality: the scores {rise} with it.",
            f"The correlation is {facts.follows:+.2f}, and scores cannot tell whether this is a bias.",
        ),
        "one family": (
            "Use these scores only if one family of judges may decide: all judges were declared as one family.",
            "Judges of one family may share their mistakes.",
        ),
    }[concern]
    return _reason(message, detail, facts.perhaps_duplicates if concern == "duplicates" else ())


def _other_concern(facts: FitFacts, concern: Concern) -> Reason:
    reason = _concern(facts, concern)
    condition = condition_in(reason.sentence)
    return replace(reason, sentence=f"Another condition for use: {condition}.") if condition else reason


def _groups(facts: FitFacts) -> list[Reason]:
    if "two groups" not in facts.concerns[:1] or len(facts.groups) != 2:
        return []
    one, other = (listed(group, MOST_NAMED) for group in facts.groups)
    return [_reason(f"One group: {one}. The other group: {other}.")]


def _trend(facts: FitFacts) -> Reason:
    message = (
        "Use these scores only if the rows are sorted by quality: the scores "
        f"{'rise' if facts.trend > 0 else 'fall'} along the file."
    )
    detail = (
        f"The estimate and the row number have a correlation of {facts.trend:+.2f}. If the rows are in random order, "
        "this is drift of the judges: fit again with `--shuffled`, which removes it."
    )
    return _reason(message, detail)


def reasons_of(facts: FitFacts, remedies: Remedies) -> list[Reason]:
    """Return all reasons for the verdict on a fit, the most important one first."""
    why = refused(facts)
    reasons = [] if why is None else [Reason("failure", why)]
    coverage = [] if facts.coverage is None else coverage_reasons(facts.coverage)
    reasons += [reason for reason in coverage if reason.topic != "missing scores"]
    unlike = [(x.judge, x.looks_like) for x in facts.judges if x.looks_like is not None]
    reasons += [
        Reason("no judge", f"The scores of {x!r} look like {like}, not like a judge's.", (x,)) for x, like in unlike
    ]
    reasons += _about_judges(facts)
    if why is None:
        reasons += _about_the_estimate(facts, remedies) + _shifted(facts)
    reasons += [reason for reason in coverage if reason.topic == "missing scores"]
    return reasons + [Reason("certificate", caution) for caution in facts.cautions]


def _about_judges(facts: FitFacts) -> list[Reason]:
    """Return the reasons to check judges; if there are several, return one that names each judge once."""
    found = _unusual_judges(facts)
    if len(found) < 2:
        return [reason for _, reason in found]
    tags: dict[str, str] = {}
    for tag, reason in found:
        tags |= {name: tag for name in reason.judges if name not in tags}
    groups = {tag: [name for name, own in tags.items() if own == tag] for tag, _ in found}
    named = "; ".join(f"{listed(names, MOST_NAMED)} ({tag})" for tag, names in groups.items() if names)
    detail = " ".join(str(reason) for _, reason in found)
    return [Reason("suspect judge", f"Check these judges: {named}.", tuple(tags), detail)]


def _unusual_judges(facts: FitFacts) -> list[tuple[str, Reason]]:
    found: list[tuple[str, Reason]] = []
    for x in facts.judges:
        if not x.admitted:
            why, topic = (x.dead, "dead judge") if x.dead else (str(x.reason).rstrip("."), "suspect judge")
            tag = "left out" if x.dead else f"left out: {why.partition(':')[0]}"
            found.append((tag, Reason(topic, f"Judge {x.judge!r} is left out: {why}.", (x.judge,))))
    for names in facts.duplicates:
        message = f"{', '.join(names[:-1])} and {names[-1]} give nearly identical scores; they count as one judge."
        found.append(("duplicates", Reason("duplicates", message, names)))
    in_reverse = tuple(name for name in facts.weak if name in facts.perhaps_reversed)
    unrelated = tuple(name for name in facts.weak if name not in in_reverse)
    weight = "the weight is 0" if facts.labels is None else "without labels the weight would be 0"
    if in_reverse:
        message = f"{listed(in_reverse, MOST_NAMED)}: the ranking is the reverse of the other judges'; {weight}."
        found.append(("reversed", Reason("weak judges", message, in_reverse)))
    if unrelated:
        agree = "agrees" if len(unrelated) == 1 else "agree"
        message = f"{listed(unrelated, MOST_NAMED)} {agree} with no other judge; {weight}."
        found.append(("weak", Reason("weak judges", message, unrelated)))
    if facts.near_average:
        are, its = ("is", "its") if len(facts.near_average) == 1 else ("are", "their")
        message = f"{listed(facts.near_average, MOST_NAMED)} {are} nearly the average of the other judges: check that"
        why = f"{message} {its} scores were not computed from the other judges' scores."
        reason = Reason("suspect judge", why, facts.near_average)
        found.append(("nearly the average of the others", reason))
    for x in facts.judges:  # only labels can show that a judge is bad
        if x.admitted and x.notes is not None:
            sentence = f"Check judge {x.judge!r}: {x.notes.rstrip('.')}.".replace("?.", "?")
            tags = {"joined": "perhaps wrong rows", "reversed": "perhaps reversed"}
            tag = next((tag for word, tag in tags.items() if word in x.notes), "low agreement")
            found.append((tag, Reason("suspect judge", sentence, (x.judge,))))
        elif x.admitted and x.counts_against:
            sentence = (
                f"Judge {x.judge!r} contradicts the estimate (weight {x.weight:+.2f}): check whether its scale is "
                "reversed. Disagreement alone is no reason to drop a judge."
            )
            found.append(("negative weight", Reason("suspect judge", sentence, (x.judge,))))
    return found


def _about_the_estimate(facts: FitFacts, remedies: Remedies) -> list[Reason]:
    state, first = state_of(facts)
    reasons = [first, *(_groups(facts) if state == "ambiguous" else []), *_by_labels(facts)]
    if facts.effective_judges is not None and state != "no common signal":
        message = f"This panel is worth about {facts.effective_judges:.1f} independent judges"
        detail = (
            "The mean of that many judges without shared mistakes would be about as accurate as the estimate. This "
            "assumes that shared mistakes explain about half of the judges' agreement."
        )
        reasons.append(Reason("independent judges", f"{message} (of {len(facts.admitted)}).", detail=detail))
    reasons += _gates(facts, remedies)
    settled = state == "settled by labels"
    if not settled:
        reasons += [_other_concern(facts, concern) for concern in facts.concerns[1:]]
    if state in ("ambiguous", "too little data", "no common signal") and facts.labels is None:
        departs = "stays close to" if facts.removed or facts.duplicates else "is"
        message = f"Without enough labels, the estimate {departs} the plain average of the judges."
        reasons.append(Reason("plain average", message))
    elif facts.plain_average is not None:
        reasons.append(_against_plain_average(facts.plain_average, facts))
    if facts.removed:
        kept = facts.kept
        moved = f"{kept.halves_changed:,} of {facts.items:,} items would be in the other half" if kept else ""
        message = f"Some judges reward {_in_words(facts.removed)}; CARE has removed that effect from their scores."
        detail = moved and f"Without the removal, {moved} of the ranking."
        reasons.append(Reason("condition" if facts.rests_on_removal else "removed effect", message, detail=detail))
    if "feature" in facts.concerns and facts.without is not None and not settled:
        moved = f"{facts.without.halves_changed:,} of {facts.items:,} items are in the other half of the ranking"
        reasons.append(_reason(f"Without the effect of {feature_in_words(str(facts.feature))}, {moved}."))
    if facts.asks_for_order and not settled and first != _trend(facts):
        reasons.append(_trend(facts))
    if facts.blind and not settled:
        message = "The items have no texts, so CARE cannot check whether judges reward longer answers."
        detail = "Add the texts of the items with `--items`, or to the items of the test set."
        reasons.append(Reason("followed", message, detail=detail))
    if facts.always_left is not None:
        message = f"{facts.always_left} was on the left in every pair, so position bias may affect the ranking."
        detail = "Have the judges score pairs in both orders, or estimate win rates from labels of some pairs."
        reasons.append(Reason("condition", message, detail=detail))
    if facts.sides is not None:
        reasons.append(reason_of_sides(facts.sides, facts.admitted))
    return reasons + _followed(facts)


def _gates(facts: FitFacts, remedies: Remedies) -> list[Reason]:
    if facts.gates:
        more = [f"{x.judge}: {x.remedy}." for x in facts.gates if x.remedy]
        return [Reason("labels", gates_sentence(facts.gates), detail=" ".join(more))]
    if not facts.gate_needs:
        return []
    if facts.gate_needs == "cut":
        missing, remedy = "gold and scores have different scales", f"Set a pass mark: {remedies.cut}"
    elif facts.labels is not None:
        missing, remedy = "compare the judges with your labels", capital(remedies.report)
    else:
        too_few, none = "there are no human labels, or too few", "there are no pass or fail labels"
        missing = too_few if facts.gate_needs == "labels" else none
        remedy = f"Label random items with {remedies.label_values}, then {remedies.report}"
    return [Reason("labels", f"{GATE_QUESTION}? Not known yet: {missing}. {remedy}.")]


def _by_labels(facts: FitFacts) -> list[Reason]:
    evidence = facts.labels
    if evidence is None or facts.labels_contradict:
        return []
    number = counted(evidence.labels, "label")
    probability = "above 99 %" if evidence.better > 0.99 else f"of {100 * evidence.better:.0f} %"
    message = (
        f"With {number}, the estimate is at least as good as the plain average with a probability {probability}; the "
        f"expected gain is {evidence.gain:+.3f} in Kendall's tau."
    )
    is_unrelated = evidence.at_random > UNRELATED and evidence.labels >= LABELS_TO_SETTLE
    if is_unrelated:
        message = (
            f"{number} do not confirm the judges: with a probability of {100 * evidence.at_random:.0f} % they are "
            "unrelated to the scores. Check that each label belongs to its item, or add labels."
        )
    elif evidence.labels < LABELS_TO_SETTLE:
        message = f"{number} cannot decide; at least {LABELS_TO_SETTLE} are needed."
    elif not facts.concerns and evidence.turned >= _UNCHANGED:
        message = f"{number} leave the estimate nearly unchanged."
    elif not evidence.settles:
        message += " Add labels."
    return [Reason("condition" if is_unrelated else "labels", message)]


def _followed(facts: FitFacts) -> list[Reason]:
    reasons: list[Reason] = []
    for feature in facts.followed:
        if abs(feature.correlation) < FOLLOWS:
            continue
        name, own = feature_in_words(feature.feature), feature.of_estimate
        topic: Topic = "followed"
        message = f"Several judges' scores correlate with {name}."
        detail = f"Rank correlation with factor {feature.factor + 1} of the judges: {feature.correlation:+.2f}."
        if own is not None:  # unlike in a fit of an earlier release
            detail += f" The estimate and this feature have a rank correlation of {own:+.2f}."
            if abs(own) < FOLLOWS_FEATURE:
                message = f"Several judges' scores correlate with {name}, but the estimate hardly does."
            elif abs(own) >= FOLLOWS and "feature" not in facts.concerns:
                topic = "condition"
                message = f"The estimate correlates with {name}: it is right only if {name} is part of quality."
                detail += " If it is not, give it as a column of the items (`--feature NAME --not-quality NAME`)."
        reasons.append(Reason(topic, message, detail=detail))
    return reasons


def _against_plain_average(plain: Changed, facts: FitFacts) -> Reason:
    detail = ""
    if plain.correlation != plain.correlation:
        message = "The plain average gives every item the same score and therefore no ranking."
    elif plain.top_changed == 0 and (plain.correlation > 0.995 or not plain.halves_changed):
        message = "The plain average of the judges gives nearly the same ranking."
    else:
        top = f"the top {plain.top:,}"
        message = f"{plain.top_changed:,} of {top} items would not be in {top} by the plain average."
        if plain.top_changed == 0:
            message = f"{plain.halves_changed:,} items would be in the other half of the ranking by the plain average."
        detail = f"The two rankings have a correlation of {plain.correlation:+.2f}."
        if facts.factor_share:
            detail += f" {100 * facts.factor_share:.0f} % of the estimate is the judges' common factor."
    return Reason("plain average", message, detail=detail)


def _shifted(facts: FitFacts) -> list[Reason]:
    """Warn if many judges look misaligned, because the other judges may then be the misaligned ones."""
    shifted = [each.judge for each in facts.judges if str(each.reason).startswith("misaligned: agreement")]
    if 5 * len(shifted) < len(shifted) + len(facts.admitted):
        return []
    message = (
        f"The scores of {listed(shifted, MOST_NAMED)} look misaligned, but the scores of the other "
        f"{len(facts.admitted)} judges may be joined to the wrong items instead: check the rows of all judges first."
    )
    return [Reason("condition", message, tuple(shifted))] if shifted else []
