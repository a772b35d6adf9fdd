"""Verdict on a fit, decided from the facts of the fit and from changes since the fit was built."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from care_ops.errors import capital, listed
from care_ops.minimum_sizes import MIN_JUDGES
from care_ops.results.fit_facts import FitFacts
from care_ops.results.reasons import feature_in_words, reasons_of, refused, state_of
from care_ops.results.verdict import Reason, Remedies, State, Step, Verdict, condition_in


@dataclass(frozen=True)
class FitStatus:
    """Status of a test set since its published fit was built.

    Attributes
    ----------
    failures : tuple of str
        Steps that failed in the last run.
    blocking_checks : tuple of str
        Checks that block the latest fit.
    blocked_fit_version, blocked_built_at : str or None
        Version of the blocked fit, and the time when it was built.
    changes, estimate_changes : tuple of str
        Inputs of the blocked fit that the published fit lacks, and the differences between the two estimates.
    published_version : str
        Sentence about the version that stays published while the latest fit is blocked.
    incomplete_judges : tuple of str
        Judges with incomplete scores; the next run requests the missing scores.
    stale, notes : tuple of Reason
        Reasons why the fit is stale, and warnings, for example about a few missing scores.
    """

    failures: tuple[str, ...] = ()
    blocking_checks: tuple[str, ...] = ()
    blocked_fit_version: str | None = None
    blocked_built_at: str | None = None
    changes: tuple[str, ...] = ()
    estimate_changes: tuple[str, ...] = ()
    published_version: str = ""
    incomplete_judges: tuple[str, ...] = ()
    stale: tuple[Reason, ...] = ()
    notes: tuple[Reason, ...] = ()


def decide(facts: FitFacts | None, status: FitStatus, remedies: Remedies) -> Verdict:
    """Decide the verdict on a fit; failures have priority over a blocked fit, and a blocked fit over a stale fit."""
    fit_reasons = [] if facts is None else reasons_of(facts, remedies)
    if status.blocking_checks and not status.failures:
        return _blocked(facts, status, fit_reasons, remedies)
    first = [Reason("failure", _ended(sentence)) for sentence in status.failures]
    stale = [*status.stale] or ([] if facts or first else [Reason("stale", "No fit has been built yet.")])
    why = None if facts is None else refused(facts)
    state: State
    if first or why is not None:
        state, sentence = "failed", first[0].sentence if first else str(why)
    elif stale or facts is None:
        state, sentence = "stale", stale[0].sentence
    else:
        state, reason = state_of(facts)
        sentence = reason.sentence
    reasons = [*first, *stale, *status.notes, *fit_reasons]
    reasons.sort(key=lambda reason: reason.topic != "lost scores")
    version, made_at = (None, None) if facts is None else (facts.fit_version, facts.made_at)
    steps = _steps(state, sentence, facts, remedies)
    if facts is not None and state not in ("failed", "stale"):
        steps = (*_about_reversed_judges(facts), *steps)
    return Verdict(state, sentence, tuple(reasons), steps, version, made_at)


def _blocked(facts: FitFacts | None, status: FitStatus, fit_reasons: Sequence[Reason], remedies: Remedies) -> Verdict:
    judges = status.incomplete_judges
    waits = [f"scores of {listed(judges, 4)} are incomplete"] if judges else []
    why = "; ".join([*waits, *(status.changes or status.blocking_checks[:1])])
    sentence = f"A new fit waits for your review: {_ended(why)}"
    sentences: list[str] = []
    if facts is not None and refused(facts) is None:
        state, first = state_of(facts)
        sentences.append(f"Verdict on the new fit: {Verdict(state, first.sentence).headline}")
    sentences += ["; ".join(status.estimate_changes)] if status.estimate_changes else []
    reasons = [Reason("held back", _ended(capital(each))) for each in sentences]
    if status.published_version:
        reasons.append(Reason("publication", status.published_version))
    reasons += [Reason("held back", _ended(capital(each))) for each in status.blocking_checks]
    reasons += [*status.stale, *status.notes, *fit_reasons]
    answer = _after("Check that these judges answer, then", remedies.again)  # another fit replaces this one
    steps = (answer,) if judges else _steps("held back", sentence, facts, remedies)
    return Verdict("held back", sentence, tuple(reasons), steps, status.blocked_fit_version, status.blocked_built_at)


def _steps(state: State, sentence: str, facts: FitFacts | None, remedies: Remedies) -> tuple[Step, ...]:
    if state in ("held back", "stale"):
        return (remedies.decide if state == "held back" else remedies.again,)
    if facts is None or state == "failed":
        few = facts is not None and len(facts.admitted) < MIN_JUDGES
        fix = "Add scores of more judges" if few else "Correct the reported error"
        return (_after(f"{fix}, then", remedies.again),)
    if state == "clear if" and facts.concerns[:1] != ("feature",):
        use = _after(f"If {condition_in(sentence)},", remedies.use)
        if facts.concerns or facts.rests_on_removal:
            return use, _after("Otherwise, or if you do not know,", remedies.label)
        again = "If the rows are in random order, fit again with `--shuffled` (`shuffled=True` in Python)."
        return use, Step(again)
    if state == "clear if":
        return (
            Step(
                f"If {feature_in_words(str(facts.feature))} is not part of quality, declare this with "
                f"`--not-quality {facts.feature}` or the setting `not_quality` of a fit, and fit again."
            ),
            remedies.label,
        )
    if state == "ambiguous":
        pair, others = sorted(facts.groups, key=len) or ((), ())
        if "two groups" not in facts.concerns[:1] or not len(pair) == 2 < len(others):
            return (remedies.label,)
        runs = (
            f"If {listed(pair)} are runs of one model, or of models of one family, fit again without one of them: "
            f"`--drop {shlex.quote([*pair][-1])}` (`drop` in Python)."
        )
        return Step(runs), _after("Otherwise,", remedies.label)
    if state == "no common signal":
        look = Step("Check that all judges scored the same items and answered the same question, or use other judges.")
        return look, _after("Or", remedies.label)
    if state == "too little data":
        more = "Score more items" if facts.concerns[0] == "few items" else "Add judges of other kinds"
        return Step(f"{more}, and fit again."), _after("Or", remedies.label)
    all_labelled = facts.labels is not None and facts.labels.labels >= facts.items
    if state == "clear" and not all_labelled:
        name = Step(
            "If judges may also reward another property, such as tone, add it to the items as a numeric column and fit "
            "again with `--feature COLUMN` (`features` in Python and in a test set)."
        )
        return remedies.use, name, _after("To be more certain,", remedies.label)
    return (remedies.use,)


def _about_reversed_judges(facts: FitFacts) -> list[Step]:
    if not (names := facts.perhaps_reversed):
        return []
    options = " ".join(f"--scale {shlex.quote(name)}=HIGHEST:LOWEST" for name in names)
    means = f"If a low score by {listed(names)} means good, declare this with `{options}` (1:0 for scores in words)"
    return [Step(f"{means}, or with `scales` in Python and in a test set, and fit again.")]


def _after(words: str, step: Step) -> Step:
    return replace(step, sentence=f"{words} {step.sentence[:1].lower()}{step.sentence[1:]}")


def _ended(sentence: str) -> str:
    sentence = sentence.strip()
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
