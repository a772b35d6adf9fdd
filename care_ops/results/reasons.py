"""The reasons for a verdict, as plain sentences; the numbers behind a sentence are in its detail."""

from collections.abc import Sequence

from care_ops.admission import why_left_out
from care_ops.concerns import FOLLOWS_FEATURE, Concern
from care_ops.errors import counted, listed
from care_ops.minimum_sizes import FOLLOWS, LABELS_TO_SETTLE, MIN_DISTINCT_JUDGES, MIN_ITEMS_TO_COMPARE, MIN_JUDGES
from care_ops.records import JudgeCheck
from care_ops.results.coverage import Coverage, coverage_of, cut_off
from care_ops.results.fit_facts import FitFacts, JudgeFacts
from care_ops.results.sides import Sides
from care_ops.results.verdict import Reason, State, Topic
from care_ops.scores import ScoreMatrix
from care_ops.sparsity import FIT_GROUPS_REMEDY

_FEATURES_IN_WORDS = {
    "characters": "the number of characters",
    "words": "the number of words",
    "sentences": "the number of sentences",
    "words_per_sentence": "the words per sentence",
    "list_items": "the number of list items",
    "numbers": "the number of figures",
    "authority_markers": "the number of citations and links",
    "emoji": "the number of emoji",
    "smog": "the reading grade (SMOG)",
}
"""Names of the features of texts (``interpret.FEATURES``), each of which goes on with "of the texts"."""

_UNCHANGED = 0.98
"""Correlation of the estimates with and without labels from which labels hardly change the ranking."""

_NAMED = 4
"""Judges that a sentence names; its detail has all of them."""


def feature_in_words(feature: str) -> str:
    """A feature of texts as people name it, such as "the number of words"."""
    return _FEATURES_IN_WORDS.get(feature.replace(" ", "_"), f"the {feature.replace('_', ' ')}")


def _in_words(features: Sequence[str]) -> str:
    return " and ".join(feature_in_words(name) for name in features)


def refused(facts: FitFacts) -> str | None:
    """Why the fit gives no answer that could be trusted; None where it gives one."""
    if len(facts.admitted) < MIN_JUDGES:
        return capital(f"{refusal(facts.admitted)}.")
    return None if facts.failure is None else f"There is no answer to judge: {facts.failure}."


def refusal(judges: Sequence[str]) -> str:
    """Why a panel of so few judges is refused."""
    count = ("no judge", "one judge", "two judges")[len(judges)]
    named = f" ({', '.join(judges)})" if judges else ""
    return f"{count}{named} can be heard, and a panel needs three: where fewer disagree, nothing says which is wrong"


def too_few(scores: ScoreMatrix, checks: Sequence[JudgeCheck], *, loosen: str, declare: str) -> str:
    """Why fewer than three judges are admitted, and what to do; the words are ``why_left_out``'s."""
    coverage = coverage_of(scores, not_asked=False)
    if len(coverage.groups) > 1:
        return f"{coverage.falls_into()}; {FIT_GROUPS_REMEDY}"
    why = cut_off(scores, [c.judge for c in checks if (c.reason or "").startswith("missing")])
    why = why or f"Give scores of more judges. {why_left_out(checks, loosen=loosen, declare=declare)}".rstrip()
    return f"{refusal([c.judge for c in checks if c.admitted])}. {why}"


def state_of(facts: FitFacts) -> tuple[State, Reason]:
    """Decide the state of a fit that has an estimate and is up to date, and the first thing to know about it."""
    if facts.labels is not None and facts.labels_contradict:
        message = "Your labels contradict your judges: check that a higher label is better, and its item is right."
        detail = (
            f"The estimate by these labels correlates with the one by the judges alone at {facts.labels.turned:+.2f}."
        )
        return "ambiguous", Reason("ambiguity", message, detail=detail)
    state, first = _without_labels(facts)
    if state == "clear":
        return state, first
    unsettled = f"By scores alone: {first.sentence}"
    if facts.labels is not None and facts.labels.settles:
        gain = f"{100 * facts.labels.better:.0f} % likely to rank at least as well as the plain average"
        message = f"By {counted(facts.labels.labels, 'label')} the estimate is {gain}."
        return "settled by labels", Reason("ambiguity", message, detail=unsettled)
    return state, first


_STATES: dict[str, State] = {
    "few judges": "too little data",
    "few items": "too little data",
    "no common signal": "no common signal",
    "duplicates": "clear if",
    "feature": "clear if",
    "one family": "clear if",
}
"""The state that a concern leads to where it is the gravest; the others lead to *ambiguous*."""


def _without_labels(facts: FitFacts) -> tuple[State, Reason]:
    """The state by scores alone, and its reason."""
    if facts.doubts and not facts.concerns:
        message = "This fit was built by an earlier release, which had concerns about it; fit again to see them."
        return "ambiguous", Reason("ambiguity", message)
    if facts.concerns:
        return _STATES.get(facts.concerns[0], "ambiguous"), _concern(facts, facts.concerns[0])
    if facts.rests_on_removal:
        names = _in_words(facts.removed)
        message = f"Use these scores only if {names} {'is' if len(facts.removed) == 1 else 'are'} not part of quality."
        return "clear if", Reason("ambiguity", message)
    if facts.asks_for_order:
        return "clear if", _trend(facts)
    judges, items = len(facts.admitted), counted(facts.items, "item")
    if facts.coverage is not None and facts.coverage.unscored:
        items = f"{facts.items - facts.coverage.unscored:,} of {items}"
    message = f"{judges} judges give one ranking of {items}; only labels could show a mistake that most of them share."
    return "clear", Reason("ambiguity", message)


def _concern(facts: FitFacts, concern: Concern) -> Reason:
    """What a concern is about: the consequence first, then what was measured."""
    items, judges = counted(facts.items, "item"), len(facts.admitted)
    independent = judges - sum(len(names) - 1 for names in facts.duplicates)
    named = listed(facts.perhaps_duplicates, _NAMED)
    message, detail = {
        "few judges": (
            f"Only {independent} judges score independently: where two share a mistake, nothing shows it. Use at least "
            f"{MIN_DISTINCT_JUDGES}.",
            "",
        ),
        "few items": (f"{items} are too few to compare the judges; {MIN_ITEMS_TO_COMPARE} are needed.", ""),
        "no common signal": (
            "The judges hardly agree with one another, so there is nothing to combine.",
            f"Each correlates with their common factor by {facts.signal:+.2f} on average.",
        ),
        "opposed": (
            "A quarter of the judges or more rank the items the other way round, and nothing tells who is right.",
            "Check whether some scales are reversed.",
        ),
        "two groups": (
            f"The judges form two groups that rank the items differently{_mostly_by(facts)}, and scores alone cannot "
            "tell which is right.",
            f"A second factor is {facts.second_factor:.2f} times as strong as the first. {_groups(facts)}".rstrip(),
        ),
        "alternatives": (
            "Two plausible ways to combine the judges rank the items differently, and scores alone cannot tell which "
            "is right.",
            f"The estimate and {facts.alternative} have a rank correlation of only {facts.agreement:+.2f}.",
        ),
        "duplicates": (
            f"Use these scores only if {named} are not copies of one judge.",
            "Their scores are nearly identical: they may be copies, or better judges than the others.",
        ),
        "feature": (
            f"Use these scores only if {feature_in_words(str(facts.feature))} is part of quality.",
            f"The estimate follows it (correlation {facts.follows:+.2f}), and scores cannot tell whether it should.",
        ),
        "one family": (
            "Use these scores only if one family of judges may decide: all judges were declared one family.",
            "What a family agrees on may be its mistake.",
        ),
    }[concern]
    return Reason("ambiguity", message, facts.perhaps_duplicates if concern == "duplicates" else (), detail)


def _trend(facts: FitFacts) -> Reason:
    """Ask whether the rows were shuffled, where the scores rise or fall along the file."""
    way = "rise" if facts.trend > 0 else "fall"
    message = f"Use these scores only if the rows were sorted: the scores {way} along the file."
    detail = (
        f"The estimate correlates with the position by {facts.trend:+.2f}. If the rows are in random order, that is a "
        "drift of the judges: fit again with `--shuffled`, which removes it."
    )
    return Reason("ambiguity", message, detail=detail)


def _mostly_by(facts: FitFacts) -> str:
    return "" if facts.differing_feature is None else f", mostly by {feature_in_words(facts.differing_feature)}"


def _groups(facts: FitFacts) -> str:
    if len(facts.groups) != 2:
        return ""
    first, second = (listed(group, _NAMED) for group in facts.groups)
    return f"One group: {first}. The other: {second}."


def reasons_of(facts: FitFacts) -> list[Reason]:
    """Every reason that the fit itself gives, what nobody may overlook first."""
    why = refused(facts)
    reasons = [] if why is None else [Reason("failure", why)]
    absent: list[Reason] = []
    if facts.coverage is not None:
        coverage = _on_coverage(facts.coverage)
        absent = [reason for reason in coverage if reason.topic == "missing scores"]
        reasons += [reason for reason in coverage if reason not in absent]
    unlike = [(x.judge, x.looks_like) for x in facts.judges if x.looks_like is not None]
    reasons += [Reason("no judge", f"Column {x!r} looks like {like}, not like a judge.", (x,)) for x, like in unlike]
    reasons += _dead(facts.judges)
    if why is None:
        reasons += _about_the_estimate(facts) + _shifted(facts)
    reasons += _suspects(facts.judges) + absent
    return reasons + [Reason("certificate", caution) for caution in facts.cautions]


def _about_the_estimate(facts: FitFacts) -> list[Reason]:
    """Why the estimate is clear, ambiguous or settled, and how it departs from the plain average."""
    state, first = state_of(facts)
    reasons = [first, *_evidence(facts)]
    if facts.effective_judges is not None:
        reasons.append(_independent(facts))
    settled = state.startswith("settled")
    if not settled:
        reasons += [_concern(facts, concern) for concern in facts.concerns[1:]]
    if state in ("ambiguous", "too little data", "no common signal") and facts.labels is None:
        message = "Until labels decide, the estimate is the plain average of the judges."
        if facts.removed or facts.duplicates:
            message = "Until labels decide, the estimate stays close to the plain average of the judges."
        reasons.append(Reason("plain average", message))
    reasons += _departures(facts)
    if "feature" in facts.concerns and facts.without is not None and not settled:
        name = feature_in_words(str(facts.feature))
        message = f"Without {name}, {facts.without.halves_changed:,} of {counted(facts.items, 'item')} change halves."
        reasons.append(Reason("ambiguity", message))
    if facts.asks_for_order and not settled and first != _trend(facts):
        reasons.append(_trend(facts))
    if facts.blind and not settled:
        message = "No text of the items is known, so CARE cannot check whether judges reward longer answers."
        detail = "Give the texts too: `--items`, or the items of the test set."
        reasons.append(Reason("followed", message, detail=detail))
    if facts.always_left is not None:
        message = f"{facts.always_left} was on the left in every pair, so a preference for a side cannot be separated."
        detail = "Ask about pairs in both orders, or label some pairs and estimate rates."
        reasons.append(Reason("condition", message, detail=detail))
    if facts.sides is not None:
        reasons.append(_by_the_side(facts.sides, facts.admitted))
    return reasons + _followed(facts)


def _independent(facts: FitFacts) -> Reason:
    """How many independent judges the panel is worth."""
    number = facts.effective_judges or 1.0
    message = f"This panel is worth about {number:.1f} independent judges (of {len(facts.admitted)})."
    detail = (
        "That is p^2 over the sum of the correlations of the judges' errors, if about half of what the judges share is "
        "quality, as on recorded panels."
    )
    return Reason("independent judges", message, detail=detail)


def _departures(facts: FitFacts) -> list[Reason]:
    """Each departure from the plain average, and the size of all of them."""
    reasons: list[Reason] = []
    for names in facts.duplicates:
        message = f"{', '.join(names[:-1])} and {names[-1]} give nearly identical scores; they count as one judge."
        reasons.append(Reason("duplicates", message, names))
    if facts.weak:
        message = f"{listed(facts.weak, _NAMED)} {'agrees' if len(facts.weak) == 1 else 'agree'} with no other judge"
        reasons.append(Reason("weak judges", f"{message}, and the average leaves them out.", facts.weak))
    if facts.near_average:
        are = "is" if len(facts.near_average) == 1 else "are"
        message = f"{listed(facts.near_average, _NAMED)} {are} nearly the average of the other judges: check that"
        reasons.append(Reason("suspect judge", f"{message} these scores are its own.", facts.near_average))
    if facts.removed:
        kept = facts.kept
        size = f"Left in, {kept.halves_changed:,} of {facts.items:,} items would change halves." if kept else ""
        message = f"Some judges reward {_in_words(facts.removed)}; CARE has removed that effect from their scores."
        reasons.append(Reason("condition" if facts.rests_on_removal else "removed effect", message, detail=size))
    if facts.plain_average is not None:
        reasons.append(_against_plain_average(facts))
    return reasons


def _evidence(facts: FitFacts) -> list[Reason]:
    """What labels tell about the estimate."""
    reasons: list[Reason] = []
    if facts.labels is not None and not facts.labels_contradict:
        number, found = counted(facts.labels.labels, "label"), facts.labels
        message = (
            f"With {number} the estimate is at least as good as the plain average with {_probability(found.better)}; "
            f"expected gain {found.gain:+.3f} in Kendall's tau."
        )
        if found.at_random > 0.5:
            message = f"{number} are unrelated to the judges' scores: check that each is at its own item."
        elif found.labels < LABELS_TO_SETTLE:
            message = f"{number} are too few to decide: give at least {LABELS_TO_SETTLE}."
        elif not facts.concerns and found.turned >= _UNCHANGED:
            message = f"{number} hardly change the ranking and do not contradict the judges."
        elif not found.settles:
            message += " Give more labels."
        reasons.append(Reason("labels", message))
    return reasons


def _followed(facts: FitFacts) -> list[Reason]:
    """What the judges follow in the texts."""
    so, also = "so what looks like quality may be that", ""
    if facts.feature is not None and abs(facts.follows) < FOLLOWS_FEATURE:
        so = "and the answer hardly does"
        also = f" What the answer follows most is {feature_in_words(facts.feature)}, by {facts.follows:+.2f}."
    return [
        Reason(
            "followed",
            f"Something that several judges share follows {feature_in_words(feature.feature)}, {so}.",
            detail=f"It is factor {feature.factor + 1}, by a rank correlation of {feature.correlation:+.2f}.{also}",
        )
        for feature in facts.followed
        if abs(feature.correlation) >= FOLLOWS
    ]


def _by_the_side(sides: Sides, judges: Sequence[str]) -> Reason:
    """That judges of pairs choose by the side on which an answer stands."""
    side, share = ("left", sides.share) if sides.share > 0.5 else ("right", 1.0 - sides.share)
    who = tuple(judges[j] for j, own in sides.judges.items() if not sides.plain or (own > 0.5) == (side == "left"))
    often = f"{len(who)} of {len(judges)} judges plainly choose the {side} answer more often, all" if who else "All"
    told = f"{often} together in {100 * share:.0f} % of the pairs"
    said = told if sides.plain else f"Some judges choose by the side: {listed(who, _NAMED)}"
    why = "each system stood on both sides" if sides.known else "by the side, unless better answers stand there"
    shares = ", ".join(f"{judges[j]} {100 * own:.0f} %" for j, own in sides.judges.items())
    return Reason("followed", f"{said}; {why}.", who, f"Shares of the left answer: {shares or 'none by itself'}.")


def _against_plain_average(facts: FitFacts) -> Reason:
    """How far the estimate departs from the plain average."""
    plain = facts.plain_average
    assert plain is not None
    if plain.correlation != plain.correlation:
        return Reason("plain average", "The plain average gives every item the same score, and so no ranking.")
    if plain.top_changed == 0 and (plain.correlation > 0.995 or not plain.halves_changed):
        return Reason("plain average", "The plain average of the judges gives nearly the same ranking.")
    message = f"{plain.top_changed:,} of the top {plain.top:,} items would not be in the top {plain.top:,}"
    if plain.top_changed == 0:
        message = f"{plain.halves_changed:,} items would be in the other half of the ranking"
    share = (
        f" {100 * facts.factor_share:.0f} % of the estimate is the judges' common factor." if facts.factor_share else ""
    )
    detail = f"The two rankings have a correlation of {plain.correlation:+.2f}.{share}"
    return Reason("plain average", f"{message} by the plain average.", detail=detail)


def _on_coverage(coverage: Coverage) -> list[Reason]:
    """What is to be known of items with few scores, of judges that share no item, and of scores that are absent."""
    few_scores: Topic = "few scores" if coverage.mostly_few else "missing scores"
    said: list[tuple[Topic, str | None]] = [
        (few_scores, coverage.on_few_scores()),
        ("not connected", coverage.on_groups()),
        ("lost scores" if coverage.lost else "no answer", coverage.on_unscored()),
        ("no answer", coverage.on_absent_by_score()),
        ("condition" if coverage.sparse else "missing scores", coverage.on_missing_scores()),
    ]
    return [Reason(topic, sentence) for topic, sentence in said if sentence is not None]


def _dead(judges: Sequence[JudgeFacts]) -> list[Reason]:
    dead = {
        judge.judge: f"Judge {judge.judge!r} is dead: {judge.dead}, and it is left out."
        for judge in judges
        if judge.dead
    }
    if len(dead) < 2:
        return [Reason("dead judge", said, (name,)) for name, said in dead.items()]
    sentence = f"{len(dead)} judges are dead, and are left out: {listed([*dead], _NAMED)}."
    return [Reason("dead judge", sentence, tuple(dead), " ".join(dead.values()))]


def _shifted(facts: FitFacts) -> list[Reason]:
    """That scores cannot say whose rows lie at other items, where so many do that it may be the others."""
    shifted = [each.judge for each in facts.judges if str(each.reason).startswith("misaligned: agreement")]
    if 5 * len(shifted) < len(shifted) + len(facts.admitted):
        return []
    said = (
        f"{listed(shifted, _NAMED)} are left out, as if joined to the wrong items, but it may be the "
        f"{len(facts.admitted)} others that are: mend the rows first."
    )
    return [Reason("condition", said, tuple(shifted))] if shifted else []


def _suspects(judges: Sequence[JudgeFacts]) -> list[Reason]:
    """Judges to look at. None of them is to be dropped for that: only labels can say that a judge is bad."""
    odd = {judge.judge: said for judge in judges if judge.dead is None and (said := _oddness(judge)) is not None}
    if len(odd) < 2:
        return [Reason("suspect judge", said, (name,)) for name, said in odd.items()]
    sentence = f"{len(odd)} judges deserve a look: {listed([*odd], _NAMED)}."
    return [Reason("suspect judge", sentence, tuple(odd), " ".join(odd.values()))]


def _oddness(judge: JudgeFacts) -> str | None:
    """Why a judge deserves a look; None where it does not."""
    name = f"Judge {judge.judge!r}"
    if not judge.admitted:
        return f"{name} is left out: {str(judge.reason).rstrip('.')}."
    if judge.notes is not None:
        return f"{name} deserves a look: {judge.notes.rstrip('.')}.".replace("?.", "?")
    if judge.counts_against:
        return (
            f"{name} runs against the answer (weight {judge.weight:+.2f}): look whether its scale is reversed. "
            "Disagreement alone is no reason to drop it."
        )
    return None


def capital(sentence: str) -> str:
    """The sentence with a capital at its beginning."""
    return sentence[:1].upper() + sentence[1:]


def _probability(value: float) -> str:
    """A probability in words; one that rounds to certainty is not called certain."""
    return "a probability above 99 %" if value > 0.99 else f"a probability of {100 * value:.0f} %"
