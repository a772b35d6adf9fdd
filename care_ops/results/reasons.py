"""What a fit says of itself, in words that people have; the numbers behind a sentence stand in its detail."""

from collections.abc import Sequence

from care_ops.admission import why_left_out
from care_ops.doubt import LEAST_AGREEMENT, MAY_BE_A_FEATURE, RIVAL, Changed, Doubt
from care_ops.errors import counted, listed
from care_ops.least import FOLLOWS, LABELS_TO_CONFIRM, LABELS_TO_SETTLE, LEAST_JUDGES, LEAST_VOICES, TELLING_ITEMS
from care_ops.records import JudgeCheck
from care_ops.results.coverage import Coverage, coverage_of, cut_off
from care_ops.results.fit_facts import FitFacts, JudgeFacts
from care_ops.results.sides import Sides
from care_ops.results.verdict import Reason, State, Topic
from care_ops.scores import ScoreMatrix
from care_ops.sparsity import FIT_GROUPS_APART

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

_NAMED = 4
"""Judges that a sentence names; its detail has all of them."""


def feature_in_words(feature: str) -> str:
    """A feature of texts as people name it, such as "the number of words"."""
    return _FEATURES_IN_WORDS.get(feature.replace(" ", "_"), f"the {feature.replace('_', ' ')}")


def _in_words(features: Sequence[str]) -> str:
    return " and ".join(feature_in_words(name) for name in features)


def refused(facts: FitFacts) -> str | None:
    """Why the fit gives no answer that could be trusted; None where it gives one."""
    if len(facts.admitted) < LEAST_JUDGES:
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
        return f"{coverage.falls_into()}; {FIT_GROUPS_APART}"
    why = cut_off(scores, [c.judge for c in checks if (c.reason or "").startswith("missing")])
    why = why or f"Give scores of more judges. {why_left_out(checks, loosen=loosen, declare=declare)}".rstrip()
    return f"{refusal([c.judge for c in checks if c.admitted])}. {why}"


def answer_of(facts: FitFacts) -> tuple[State, Reason]:
    """The state of a fit that gives an answer and is up to date, and what to say of it first."""
    judges, items = len(facts.admitted), counted(facts.items, "item")
    if facts.coverage is not None and facts.coverage.unscored:
        items = f"{facts.items - facts.coverage.unscored:,} of {items}"
    if facts.labels is not None and facts.labels_contradict:
        said = (
            "Your labels contradict your judges. Is a higher label the better one, and is each label at its own item?"
        )
        detail = (
            f"The answer by these labels correlates with the one by the judges alone at {facts.labels.turned:+.2f}."
        )
        return "ambiguous", Reason("ambiguity", said, detail=detail)
    far = "as far as scores can tell without texts."
    if not facts.blind:
        far = "as far as scores can tell; nothing counted in the texts differs."
    if facts.coverage is not None and facts.coverage.sparse:
        far = "if they share no mistake, which so few scores a judge would not show."
    elif facts.rests_on_taste:
        far = f"if {_in_words(facts.taken_off)} {'is' if len(facts.taken_off) == 1 else 'are'} no part of quality."
    elif facts.feature is not None:
        far = "and nothing seen in scores or texts would turn it."
    one = Reason("ambiguity", f"{judges} judges allow one answer for {items}, {far}")
    if not facts.doubts and not facts.rests_on_taste:
        return "clear", one
    doubted = _doubted(facts, facts.doubts[0]) if facts.doubts else one
    alone = f"By scores alone it is not clear. {doubted.sentence}"
    if facts.labels is not None and facts.labels.settles:
        settled = f"{counted(facts.labels.labels, 'label')} by people have settled which answer is right."
        return "settled by labels", Reason("ambiguity", settled, detail=alone)
    if facts.probes is not None and facts.probes.settles:
        settled = "Probes have settled which answer is right, if what was declared of them is true."
        return "settled by probes", Reason("ambiguity", settled, detail=alone)
    return _STATE_OF.get(facts.doubts[0], "ambiguous") if facts.doubts else "clear if", doubted


_STATE_OF: dict[Doubt, State] = {
    "few judges": "too little data",
    "few items": "too little data",
    "no common signal": "no common signal",
    "feature": "clear if",
    "counted once": "clear if",
    "kin": "clear if",
}
"""The state that a doubt leads to where it is the gravest; of the others it is ambiguous."""


def _doubted(facts: FitFacts, doubt: Doubt) -> Reason:
    """What a doubt is about."""
    if doubt == "several answers":
        return _several_answers(facts)
    if doubt == "few judges":
        alone = len(facts.admitted) - sum(len(names) - 1 for names in facts.copies)
        some = f"Only {alone} judges speak for themselves"
        if alone >= LEAST_VOICES:
            some = "Fewer than four judges agree with the others"
        return Reason("ambiguity", f"{some}: where two share a mistake, nothing shows it. Four are needed.")
    if doubt == "few items":
        said = f"{counted(facts.items, 'item')} are too few to tell the judges apart; {TELLING_ITEMS} are needed."
        return Reason("ambiguity", said)
    if doubt == "feature":
        return _feature(facts)
    if doubt == "families":
        said = "The answer depends on which judges were declared one family: other declarations lead to other answers."
        if facts.blind:  # the answer without families may be the same: what they share is in doubt, not who they are
            said = "Judges of one family agree beyond what all share, and without texts nothing shows if that is taste."
        if facts.families == 1:
            said = "All your judges were declared one family, and what one family agrees on may be its mistake."
        return Reason("ambiguity", said)
    if doubt == "kin":
        said = (
            f"{len(facts.admitted)} judges allow one answer for {counted(facts.items, 'item')}, if what one family "
            "shares beyond the others is its taste."
        )
        return Reason("ambiguity", said, detail="It may be what only that family sees: only labels tell.")
    copied = next(iter(facts.copies), ())
    named = listed(copied, _NAMED) or "Several judges"
    if doubt == "copies":
        said = f"{named} say one same thing: copies of one judge, or better judges than the others?"
        return Reason("ambiguity", said, copied)
    if doubt == "counted once":
        allowed = f"{len(facts.admitted)} judges allow one answer for {counted(facts.items, 'item')}"
        if not copied:
            return Reason(
                "ambiguity", f"{allowed}, if they are not copies of one judge.", detail="They hardly ever differ."
            )
        detail = "They agree with each other and hardly with the rest: one poor judge, or better ones than the rest."
        return Reason("ambiguity", f"{allowed}, if {named} are copies of one judge.", copied, detail=detail)
    reversed_too = ", or some scales are reversed" if "opposed" in facts.doubts else ""
    sentence, detail = {
        "no common signal": (
            f"Your judges hardly agree with one another{reversed_too}, so there is nothing to combine.",
            f"Each correlates with what all share by {facts.signal:+.2f} on average.",
        ),
        "opposed": (
            "A quarter of your judges or more rank the answers the other way round, and nothing says who is right.",
            "Look whether some scales are reversed.",
        ),
    }[doubt]
    return Reason("ambiguity", sentence, detail=detail)


def _feature(facts: FitFacts) -> Reason:
    """That the answer follows a feature of the texts."""
    sentence = f"The answer follows {feature_in_words(str(facts.feature))}: use it only if that is part of quality."
    detail = f"Its correlation with it is {facts.follows:+.2f}, and the scores cannot say whether it should follow it."
    return Reason("ambiguity", sentence, detail=detail)


def _several_answers(facts: FitFacts) -> Reason:
    """In what the defensible answers of an ambiguous panel differ."""
    parted = "and scores cannot say which is right"
    if facts.parted_by is not None:
        parted = f"mostly by {feature_in_words(facts.parted_by)}"
    if facts.rival is not None and abs(facts.rival) < RIVAL:
        said = f"Your judges split into camps that rank the answers differently, {parted}."
        detail = f"Several follow a factor that correlates at only {facts.rival:+.2f} with the answer."
    elif facts.agreement >= LEAST_AGREEMENT and facts.misfit > 0:
        said = "Your judges share more than one thing, and scores cannot say which of them is quality."
        detail = f"One common factor leaves correlations of judges unexplained, by {facts.misfit:.2f} on average."
    else:
        said = f"Two sensible ways to combine your judges rank the answers differently, {parted}."
        detail = f"The mean of the judges and the factor that they share correlate at only {facts.agreement:+.2f}."
    return Reason("ambiguity", said, detail=detail)


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
    if len(facts.admitted) == LEAST_JUDGES and answer_of(facts)[0] != "too little data":
        said = "Caution: there are only three judges, and where two of them share a mistake nothing shows it."
        reasons.append(Reason("few judges", said, tuple(facts.admitted)))
    if why is None:
        reasons += _about_the_answer(facts) + _shifted(facts)
    reasons += _suspects(facts.judges) + _influence(facts) + absent
    return reasons + [Reason("certificate", caution) for caution in facts.cautions]


def _about_the_answer(facts: FitFacts) -> list[Reason]:
    """Why the answer is clear, ambiguous or settled, and what the judges follow."""
    state, first = answer_of(facts)
    reasons = [first, *_evidence(facts)]
    for names in facts.copies:
        said = f"{', '.join(names[:-1])} and {names[-1]} say the same thing, and are counted once."
        reasons.append(Reason("copies", said, names))
    if not state.startswith("settled"):
        first, said_with_it = facts.doubts[:1], ("no common signal", "opposed")
        reasons += [_doubted(facts, doubt) for doubt in facts.doubts[1:] if (*first, doubt) != said_with_it]
    if "feature" in facts.doubts and facts.without is not None:
        changed = f"{facts.without.halves_changed:,} of {counted(facts.items, 'item')}"
        said = (
            f"If {feature_in_words(str(facts.feature))} is no part of quality, {changed} change halves of the ranking."
        )
        reasons.append(Reason("ambiguity", said))
    if facts.blind and facts.doubts and not state.startswith("settled"):
        said = "No text of the items is known, so nobody can see whether judges follow the length of answers."
        detail = "Give the texts too: `--items`, or the items of the test set."
        reasons.append(Reason("followed", said, detail=detail))
    if facts.taken_off:
        said = (
            f"What single judges like about {_in_words(facts.taken_off)} beyond the others is taken off their scores."
        )
        kept = facts.kept
        detail = f"If it is quality, {kept.halves_changed:,} of {facts.items:,} items change halves." if kept else ""
        reasons.append(Reason("condition" if facts.rests_on_taste else "taken off", said, detail=detail))
    if facts.always_left is not None:
        said = f"{facts.always_left} stood on the left in every pair: no score tells how good it is where judges choose"
        detail = "Ask about pairs in both orders, or label some pairs and estimate rates."
        reasons.append(Reason("condition", f"{said} by the side.", detail=detail))
    if facts.sides is not None:
        reasons.append(_by_the_side(facts.sides, facts.admitted))
    if facts.beside_mean is not None:
        reasons.append(_beside_the_mean(facts.beside_mean))
    return reasons + _followed(facts)


def _evidence(facts: FitFacts) -> list[Reason]:
    """What labels and probes say of the answer."""
    reasons: list[Reason] = []
    if facts.labels is not None and not facts.labels_contradict:
        number, found = counted(facts.labels.labels, "label"), facts.labels
        right = "that it is the right one of those that judges allow"
        likely = _by_labels(found.probability, found.labels)
        said = f"{number} agree with the answer: {likely} {right}."
        if found.at_random > 0.5:
            said = f"{number} have little to do with what your judges say: look whether each is at its own item."
        elif not found.settles and found.labels < LABELS_TO_SETTLE:
            said = f"{number} have not settled it: give {LABELS_TO_SETTLE} or more."
        elif not found.settles:
            said = f"{number} have not settled it: {likely} that this is the right answer."
        most = _by_labels(found.hypothesis_probability, found.labels)
        detail = f"The single thing that quality follows most probably is {found.hypothesis}: {most}."
        reasons.append(Reason("labels", said, detail=detail))
    if facts.probes is not None:
        found, kinds = facts.probes, "; ".join(facts.probes.kinds)
        said = f"By the probes the answer is at least as good as the plain mean with {_probability(found.probability)}"
        said += "." if found.settles else ", which is not enough."
        reasons.append(Reason("probes", said, detail=f"That rests on what was declared of them: {kinds}."))
    return reasons


def _followed(facts: FitFacts) -> list[Reason]:
    """What the judges follow in the texts."""
    so, also = "so what looks like quality may be that", ""
    if facts.feature is not None and abs(facts.follows) < MAY_BE_A_FEATURE:
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


def _influence(facts: FitFacts) -> list[Reason]:
    """Who could move half of the best tenth, where a tenth of the judges suffices; one of a handful always may."""
    found = facts.influence
    if not 0 < len(found.together) <= len(facts.admitted) // 10:
        return []
    alone = [judge for judge, moved in sorted(found.moved.items()) if 2 * moved >= found.top]
    who = f"{listed(alone, _NAMED)} alone" if len(alone) == 1 else f"Any one of {listed(alone, _NAMED)}"
    who = who if alone else f"{listed(found.together, _NAMED)} together"
    said = f"{who} could change half of the best {found.top:,} items, by saying anything."
    detail = f"The worst of a few attacks, each fitted anew, changes {found.most:,} of them."
    return [Reason("influence", said, tuple(alone) or found.together, detail)]


def _beside_the_mean(mean: Changed) -> Reason:
    """What aggregating changed at all."""
    if mean.top_changed == 0 and (mean.correlation > 0.995 or not mean.halves_changed):
        return Reason("beside the mean", "The plain mean of the judges would order the items nearly the same.")
    are = "is" if mean.top_changed == 1 else "are"
    said = (
        f"{mean.top_changed:,} of the best {mean.top:,} items {are} not among the best by the plain mean of the judges."
    )
    if mean.top_changed == 0:
        said = f"{mean.halves_changed:,} items stand in another half than by the plain mean of the judges."
    if mean.correlation != mean.correlation:
        return Reason("beside the mean", "The plain mean of the judges gives every item the same, and so no order.")
    detail = (
        "That is the mean of the judges on the panel, each standardised; the two orders have a rank correlation of "
        f"{mean.correlation:+.2f}."
    )
    return Reason("beside the mean", said, detail=detail)


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


def _by_labels(value: float, labels: int) -> str:
    """A probability by labels, in words: by few of them the model is too sure to tell .9 from more."""
    return "a probability of about 90 %" if value > 0.9 and labels < LABELS_TO_CONFIRM else _probability(value)


def _probability(value: float) -> str:
    """A probability in words; one that rounds to certainty is not called certain."""
    return "a probability above 99 %" if value > 0.99 else f"a probability of {100 * value:.0f} %"
