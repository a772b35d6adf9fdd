"""A model's text as a score, where its probabilities cannot be had.

What cannot be read with certainty is missing, never a grade: an answer on another scale, a range, two verdicts at once.

Belongs here: text to score and status. Does not: asking (``engines``), probabilities (``scoring``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from judges.items import Status

_NUMBER = r"[-−]?\d+(?:[.,]\d+)?"
_RANGE = re.compile(r"(?<![\d.,])(\d+(?:[.,]\d+)?)\s*(?:[-–—~]|to)\s*(\d+(?:[.,]\d+)?)(?![\d])")
_INTERVAL = re.compile(rf"[\[({{]\s*{_NUMBER}(?:\s*,\s*{_NUMBER})+\s*[\])}}]")
_SHARE = re.compile(rf"({_NUMBER})\s*(?:/|out\s+of|of|von|sur|из)\s*({_NUMBER})(?![\w])", re.IGNORECASE)
_ALONE = re.compile(rf"(?<![\w.,]){_NUMBER}(?![\w]|[.,]\d)")
_REFUSAL = re.compile(
    r"\b(?:I\s*(?:'m|’m|\s+am)?\s*(?:cannot|can't|can’t|can not|won't|won’t|will not|unable|not able)"
    r"|I\s*(?:'m|’m|\s+am)\s+sorry|as an? (?:AI|language model)|I (?:must|have to) decline|not comfortable)",
    re.IGNORECASE,
)
_WORDS = {
    word: float(value) for value, word in enumerate("zero one two three four five six seven eight nine ten".split())
}


def parse_answer(
    text: str | None, answers: Mapping[str, float], marker: str = "Total rating:", *, first: bool = False
) -> tuple[float | None, Status]:
    """The score that a text gives.

    A text that begins with an answer gives that one. Else it is what follows the last ``marker``; without a marker the
    last number on the scale. A share ("8/10") counts where it is of the scale's highest answer.

    Parameters
    ----------
    text : str or None
        As the model went on after the prefill.
    answers : mapping str -> float
        Legal answers as written, and their scores (``Template.answers``).
    first : bool
        Take the first number, on the scale or not, as the paper's released code does.

    Returns
    -------
    score : float or None
    status : Status
        ``refused``, ``parse_error`` or ``out_of_range`` where there is no score.
    """
    if text is None or not text.strip():
        return None, Status.PARSE_ERROR
    after, found = _after(text, marker)
    if all(re.fullmatch(r"-?\d+", answer) for answer in answers):
        shift = next(iter(answers.values())) - float(next(iter(answers)))
        return _number(text, after if found else None, [float(a) for a in answers], shift, first)
    return _word(after if found else text, answers)


def _after(text: str, marker: str) -> tuple[str, bool]:
    place = text.lower().rfind(marker.lower())
    return (text[place + len(marker) :], True) if place >= 0 else (text, False)


def _number(text: str, after: str | None, legal: list[float], shift: float, first: bool) -> tuple[float | None, Status]:
    low, high = min(legal), max(legal)
    whole = len(legal) == high - low + 1
    if first:
        match = re.search(_NUMBER, text)
        candidates = [_value(match.group())] if match else []
    else:
        opening = re.match(rf"\W{{0,4}}{_NUMBER}", text)
        line = text.lstrip().split("\n", 1)[0] if opening else ""
        if opening and not _REFUSAL.search(line):
            candidates = _candidates(line, low, high)[:1]
            if not candidates and _has_range(line, low, high):
                return None, Status.PARSE_ERROR
        elif after is not None:
            candidates = _candidates(after, low, high)[:1]
            if not candidates and _REFUSAL.search(text):
                return None, Status.REFUSED
        else:
            if _REFUSAL.search(text):
                return None, Status.REFUSED
            every = _candidates(text, low, high)
            candidates = [v for v in every if low <= v <= high][-1:] or every[-1:]
    if not candidates:
        return None, Status.REFUSED if _REFUSAL.search(text) else Status.PARSE_ERROR
    value = candidates[0]
    if not low <= value <= high or (not whole and value not in legal):
        return None, Status.OUT_OF_RANGE
    return value + shift, Status.OK


def _candidates(text: str, low: float, high: float) -> list[float]:
    """Numbers that may be the answer, in order; shares of the scale's highest answer, others left out."""
    text = _INTERVAL.sub(" ", text)
    if _has_range(text, low, high):
        return []
    text = _RANGE.sub(lambda m: " " if {_value(m[1]), _value(m[2])} == {low, high} else m[0], text)
    text = _SHARE.sub(lambda m: f" {m[1]} " if _value(m[2]) == high else " ", text)
    found = [(match.start(), _value(match.group())) for match in _ALONE.finditer(text)]
    if not found:
        found = [
            (m.start(), _WORDS[m.group().lower()]) for m in re.finditer(r"[A-Za-z]+", text) if m[0].lower() in _WORDS
        ]
    return [value for _, value in found]


def _has_range(text: str, low: float, high: float) -> bool:
    """Whether the first thing said is a range of scores, such as 3-4; the scale's own does not count."""
    match = _RANGE.search(text)
    if match is None or {_value(match[1]), _value(match[2])} == {low, high}:
        return False
    return _ALONE.search(text[: match.start()]) is None


def _word(text: str, answers: Mapping[str, float]) -> tuple[float | None, Status]:
    words = [w.lower() for w in re.findall(r"\w+", text)]
    given = [w for w in words if w in answers]
    if not given:
        return None, Status.REFUSED if _REFUSAL.search(text) else Status.PARSE_ERROR
    if words[0] in answers:
        return answers[words[0]], Status.OK
    if len(set(given)) > 1:
        return None, Status.PARSE_ERROR
    return answers[given[0]], Status.OK


def _value(text: str) -> float:
    text = text.replace("−", "-")
    if re.fullmatch(r"-?\d+,\d{3}", text):
        text = text.replace(",", "")
    return float(text.replace(",", "."))
