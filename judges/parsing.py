"""Reads a score from the text that a model wrote, for models whose probabilities are not available.

An answer that cannot be read with certainty counts as missing: a number on another scale, a range of scores, or two
different verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from judges.items import Status

# No part of a text may be tried in more ways than one: a model can write anything, and a great deal of it.
_NUMBER = r"[-−]?(?<!\d)\d+(?:[.,]\d+)?"
_IN_LIST = r"[-−]?\d+(?:\.\d+)?"
_RANGE = re.compile(r"(?<![\d.,])(\d+(?:[.,]\d+)?)\s*(?:[-–—~]|to)\s*(\d+(?:[.,]\d+)?)(?![\d])")
_INTERVAL = re.compile(rf"[\[({{]\s*{_IN_LIST}(?:\s*,\s*{_IN_LIST})+\s*[\])}}]")
_SHARE = re.compile(rf"({_NUMBER})\s*(?:/|out\s+of|of|von|sur|из)\s*({_NUMBER})(?![\w])", re.IGNORECASE)
_ALONE = re.compile(rf"(?<![\w.,]){_NUMBER}(?![\w]|[.,]\d)")
_REFUSAL = re.compile(
    r"\b(?:I(?:\s*['’]m|\s+am)?\s*(?:cannot|can't|can’t|can not|won't|won’t|will not|unable|not able)"
    r"|I(?:\s*['’]m|\s+am)\s+sorry|as an? (?:AI|language model)|I (?:must|have to) decline|not comfortable)",
    re.IGNORECASE,
)
_MOST_CHARACTERS = 10_000
"""What is read of either end of a text."""

_WORDS = {
    word: float(value) for value, word in enumerate("zero one two three four five six seven eight nine ten".split())
}


def parse_answer(
    text: str | None, answers: Mapping[str, float], marker: str = "Total rating:", *, first: bool = False
) -> tuple[float | None, Status]:
    """Read the score from a model's text.

    If the text begins with an answer, that is the answer. Otherwise the answer is what follows the last ``marker``, and
    without a marker it is the last number on the scale. A fraction such as "8/10" counts only if its denominator is the
    highest answer of the scale.

    Parameters
    ----------
    text : str or None
        What the model wrote after the prefill of the prompt.
    answers : mapping str -> float
        Legal answers as the model writes them, and their scores (``Template.answers``).
    marker : str
        Words after which the answer is expected.
    first : bool
        Take the first number, whether or not it lies on the scale, as the paper's released code does.

    Returns
    -------
    score : float or None
    status : Status
        ``refused``, ``parse_error`` or ``out_of_range`` if there is no score.
    """
    if text is None or not text.strip():
        return None, Status.PARSE_ERROR
    if len(text) > 2 * _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}\n{text[-_MOST_CHARACTERS:]}"
    start = text.lower().rfind(marker.lower())
    after_marker = text[start + len(marker) :] if start >= 0 else None
    if all(re.fullmatch(r"-?\d+", answer) for answer in answers):
        shift = next(iter(answers.values())) - float(next(iter(answers)))
        return _number(text, after_marker, [float(a) for a in answers], shift, first)
    return _word(text if after_marker is None else after_marker, answers)


def _number(
    text: str, after_marker: str | None, legal: list[float], shift: float, first: bool
) -> tuple[float | None, Status]:
    """Read an answer that is a number; ``shift`` is added to it."""
    low, high = min(legal), max(legal)
    gapless = len(legal) == high - low + 1
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
        elif after_marker is not None:
            candidates = _candidates(after_marker, low, high)[:1]
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
    if not low <= value <= high or (not gapless and value not in legal):
        return None, Status.OUT_OF_RANGE
    return value + shift, Status.OK


def _candidates(text: str, low: float, high: float) -> list[float]:
    """Numbers that may be the answer, in order; of the fractions only those of the scale's highest answer."""
    text = _INTERVAL.sub(" ", text)
    if _has_range(text, low, high):
        return []
    text = _RANGE.sub(lambda m: " " if {_value(m[1]), _value(m[2])} == {low, high} else m[0], text)
    text = _SHARE.sub(lambda m: f" {m[1]} " if _value(m[2]) == high else " ", text)
    numerals = [_value(match.group()) for match in _ALONE.finditer(text)]
    words = (match.group().lower() for match in re.finditer(r"[A-Za-z]+", text))
    return numerals or [_WORDS[word] for word in words if word in _WORDS]


def _has_range(text: str, low: float, high: float) -> bool:
    """Whether the first number is part of a range of scores, such as 3-4; the range of the scale does not count."""
    match = _RANGE.search(text)
    if match is None or {_value(match[1]), _value(match[2])} == {low, high}:
        return False
    return _ALONE.search(text[: match.start()]) is None


def _word(text: str, answers: Mapping[str, float]) -> tuple[float | None, Status]:
    """Read an answer that is a word."""
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
    """A number as people write it; a comma before three digits separates thousands, any other comma decimals."""
    text = text.replace("−", "-")
    if re.fullmatch(r"-?\d+,\d{3}", text):
        text = text.replace(",", "")
    return float(text.replace(",", "."))
