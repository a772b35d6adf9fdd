"""Decide the verdict from the facts of a fit and from changes since it was built."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from care_ops.errors import capital, listed
from care_ops.minimum_sizes import MIN_JUDGES
from care_ops.results.fit_facts import FitFacts
from care_ops.results.reasons import feature_in_words, reasons_of, refused, state_of
from care_ops.results.verdict import Reason, Remedies, State, Step, Verdict


@dataclass(frozen=True)
class FitStatus:
    """Record changes of a test set since its published fit.

    Attributes
    ----------
    failures : tuple of str
        Steps that failed in the last run.
    held_back : tuple of str
        Checks that block the latest fit.
    held_fit_version, held_made_at : str or None
        The version of the blocked fit, and when it was built.
    changes, moves : tuple of str
        Inputs of the blocked fit that the published one lacks, and how far the two estimates differ.
    reading : str
        The version that is published meanwhile.
    incomplete_judges : tuple of str
        Judges with incomplete scores; the next run asks them.
    stale, notes : tuple of Reason
        Inputs that the fit does not include yet; and warnings, such as single missing scores.
    """

    failures: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()
    held_fit_version: str | None = None
    held_made_at: str | None = None
    changes: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()
    reading: str = ""
    incomplete_judges: tuple[str, ...] = ()
    stale: tuple[Reason, ...] = ()
    notes: tuple[Reason, ...] = ()


def decide(facts: FitFacts | None, status: FitStatus, remedies: Remedies) -> Verdict:
    """Return the verdict: a failure counts first, then a blocked fit (whose facts are given), then a stale one."""
    fit_reasons = [] if facts is None else reasons_of(facts)
    if status.failures:
        return _verdict("failed", _ended(status.failures[0]), [*_since(status), *fit_reasons], facts, remedies)
    if status.held_back:
        return _held_back(facts, status, fit_reasons, remedies)
    if facts is None:
        stale = status.stale or (Reason("stale", "No fit has been made yet."),)
        return _verdict("stale", stale[0].sentence, [*stale, *status.notes], None, remedies)
    if (why := refused(facts)) is not None:
        return _verdict("failed", why, [*_since(status), *fit_reasons], facts, remedies)
    if status.stale:
        return _verdict("stale", status.stale[0].sentence, [*_since(status), *fit_reasons], facts, remedies)
    state, first = state_of(facts)
    return _verdict(state, first.sentence, [*_since(status), *fit_reasons], facts, remedies)


def _verdict(
    state: State, sentence: str, reasons: Sequence[Reason], facts: FitFacts | None, remedies: Remedies
) -> Verdict:
    version, made_at = (None, None) if facts is None else (facts.fit_version, facts.made_at)
    reasons = sorted(reasons, key=lambda reason: reason.topic != "lost scores")
    return Verdict(state, sentence, tuple(reasons), _steps(state, facts, remedies), version, made_at)


def _held_back(facts: FitFacts | None, status: FitStatus, fit_reasons: Sequence[Reason], remedies: Remedies) -> Verdict:
    waits = (
        [f"not every item has been scored yet by {listed(status.incomplete_judges, 4)}"]
        if status.incomplete_judges
        else []
    )
    sentence = f"A new fit waits for you: {_ended('; '.join([*waits, *(status.changes or status.held_back[:1])]))}"
    sentences: list[str] = []
    if facts is not None and refused(facts) is None:
        state, first = state_of(facts)
        sentences.append(f"The new fit by itself: {Verdict(state, first.sentence).headline}")
    sentences += ["; ".join(status.moves)] if status.moves else []
    reasons = [Reason("held back", _ended(capital(each))) for each in sentences]
    if status.reading:
        reasons.append(Reason("publication", status.reading))
    reasons += [Reason("held back", _ended(capital(each))) for each in status.held_back]
    reasons += [*status.stale, *status.notes, *fit_reasons]
    answer = _after("Make sure that the judges named answer, then", remedies.again)  # another fit replaces this one
    steps = (answer,) if status.incomplete_judges else _steps("held back", facts, remedies)
    return Verdict("held back", sentence, tuple(reasons), steps, status.held_fit_version, status.held_made_at)


def _since(status: FitStatus) -> list[Reason]:
    failures = [Reason("failure", _ended(sentence)) for sentence in status.failures]
    return [*failures, *status.stale, *status.notes]


def _steps(state: State, facts: FitFacts | None, remedies: Remedies) -> tuple[Step, ...]:
    if state == "held back":
        return (remedies.decide,)
    if state == "stale":
        return (remedies.again,)
    if facts is None:
        return (_after("Fix what the first sentence names, then", remedies.again),)
    if state == "failed" and len(facts.admitted) < MIN_JUDGES:
        return (Step("Give scores of more judges, then fit again.", remedies.again.command),)
    if state == "failed" and facts.failure is not None:
        return (Step("Fix what the first sentence names, then fit again.", remedies.again.command),)
    if state == "failed":
        return (_after("Fix what the first sentence names, then", remedies.again),)
    if state == "clear if" and facts.asks_for_order and not facts.concerns and not facts.rests_on_removal:
        again = "If the rows are in random order, fit again with `--shuffled` (`shuffled=True` in Python)."
        return _after("If the rows were sorted,", remedies.use), Step(again)
    if state == "clear if" and facts.concerns[:1] != ("feature",):
        return _after("If that is so,", remedies.use), _after("If not, or if it is unknown,", remedies.label)
    if state == "clear if":
        return (
            Step(
                f"If {feature_in_words(str(facts.feature))} is no part of quality, declare it: `not_quality` of a fit, "
                f"which is `--not-quality {facts.feature}` at the command line."
            ),
            remedies.label,
        )
    if state == "ambiguous":
        return (remedies.label,)
    if state == "no common signal":
        look = Step("See whether all judges scored these items, and on one question; or take other judges.")
        return look, _after("Or", remedies.label)
    if state == "too little data":
        more = "Score more items" if facts.concerns[0] == "few items" else "Add judges of other kinds"
        return Step(f"{more}, and fit again."), _after("Or", remedies.label)
    return (remedies.use, _after("To be surer,", remedies.label)) if state == "clear" else (remedies.use,)


def _after(words: str, step: Step) -> Step:
    return replace(step, sentence=f"{words} {step.sentence[:1].lower()}{step.sentence[1:]}")


def _ended(sentence: str) -> str:
    sentence = sentence.strip()
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
