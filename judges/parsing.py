"""Parser that reads a score from a model's text, for models without log probabilities.

An ambiguous answer, such as a number on another scale, a range or two different verdicts, gives no score.
"""

import re
from collections.abc import Mapping

from judges.items import Status

# No pattern may match a part of a text in several ways (backtracking): a model can write anything, at any length.
_NUMBER = r"[-−]?(?<!\d)\d+(?:[.,]\d+)?"
_IN_LIST = r"[-−]?\d+(?:\.\d+)?"
_END = r"(?:an?\s)?(\d+(?:[.,]\d+)?)"
_HEDGE = r"(?:,\s*)?(?:or|maybe|perhaps|possibly)\b,?\s*(?:(?:even|maybe|perhaps|possibly)\b\s*){0,2}"
_RANGE = re.compile(
    rf"(?<![\d.,])(\d+(?:[.,]\d+)?)\s*(?:(?:[-–—~]|to\b)\s*|{_HEDGE}){_END}(?!\d)|between\s+{_END}\s+and\s+{_END}(?!\d)",
    re.IGNORECASE,
)
_PART = re.compile(
    rf"(?<!\w)([^\W\d]\w*)[\s*_]*[:=：][\s*_]*({_NUMBER})|({_NUMBER})\s+(?:for|on|in)\s+(?:the\s)?([^\W\d]\w*)"
)
"""Pattern of the score for one criterion, such as ``style: 3`` or ``3 for style``."""

_TOTAL = re.compile(
    r"total|overall|final|score|rating|grade|mark|verdict|answer|bewertung|gesamt|оценка|итог|评分|总分", re.I
)
_INTERVAL = re.compile(rf"[\[({{]\s*{_IN_LIST}(?:\s*,\s*{_IN_LIST})+\s*[\])}}]")
_SHARE = re.compile(rf"({_NUMBER})\s*(?:/|out\s+of|of|von|sur|из)\s*({_NUMBER})(?![\w])", re.IGNORECASE)
_BARE = re.compile(rf"(?<![\w.,]){_NUMBER}(?![\w]|[.,]\d)")
_REFUSAL = re.compile(
    r"\b(?:I(?:\s*['’]m|\s+am)?\s*(?:cannot|can't|can’t|can not|won't|won’t|will not|unable|not able)"
    r"|I(?:\s*['’]m|\s+am)\s+sorry|as an? (?:AI|language model)|I (?:must|have to) decline|not comfortable)",
    re.IGNORECASE,
)
_MOST_CHARACTERS = 10_000
"""Number of characters that are read at the beginning, and at the end, of a long text."""

_WORDS = {
    word: str(value) for value, word in enumerate("zero one two three four five six seven eight nine ten".split())
}


def parse_answer(
    text: str | None, answers: Mapping[str, float], marker: str = "Total rating:", *, first: bool = False
) -> tuple[float | None, Status]:
    """Read the score from a model's text.

    An answer at the beginning of the text has priority. Otherwise, the answer follows the last ``marker``. In a text
    without a marker, a numeric answer is the last number that lies within the scale. A fraction such as "8/10" counts
    only if its denominator is the highest answer of the scale.

    Parameters
    ----------
    text : str or None
        The text that the model wrote after the prefill of the prompt.
    answers : mapping str -> float
        Allowed answers as the model writes them, and their scores (``Template.answers``).
    marker : str
        Words that precede the answer.
    first : bool
        Whether to use the first number even if it is not on the scale, as the paper's released code does.

    Returns
    -------
    score : float or None
    status : Status
        ``ok``; if there is no score, ``refused``, ``parse_error`` or ``out_of_range``.
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
            if not candidates and _RANGE.search(line):
                return None, Status.PARSE_ERROR
        elif after_marker is not None:
            candidates = _candidates(after_marker, low, high)[:1]
        else:
            every = [] if _REFUSAL.search(text) else _candidates(text, low, high, last=True)
            candidates = [v for v in every if low <= v <= high][-1:] or every[-1:]
    if not candidates:
        return None, Status.REFUSED if _REFUSAL.search(text) else Status.PARSE_ERROR
    value = candidates[0]
    if not low <= value <= high or (not gapless and value not in legal):
        return None, Status.OUT_OF_RANGE
    return value + shift, Status.OK


def _candidates(text: str, low: float, high: float, *, last: bool = False) -> list[float]:
    """Return the candidates for the answer: numbers in the text, from first to last.

    The result is empty if the first number (with ``last``, the last number) is part of a range such as 3-4 or
    "3 or 4". It is also empty if that number is the score for one of several criteria.
    """
    text = _INTERVAL.sub(" ", text)
    if not _BARE.search(text):
        text = re.sub("[A-Za-z]+", lambda match: _WORDS.get(match[0].lower(), match[0]), text)
    text = _RANGE.sub(lambda match: " " if set(_values(match)) == {low, high} else match[0], text)
    first = _RANGE.search(text)
    if first and not _BARE.search(text[: first.start()]):
        return []
    text = _SHARE.sub(lambda m: f" {m[1]} " if _value(m[2]) == high else " ", text)
    numbers = list(_BARE.finditer(text))
    if last and numbers and _is_one_of_several(text, numbers[-1].start(), low, high):
        return []
    each = [] if last else [part for part in _PART.finditer(text.split("\n", 1)[0]) if part[4]]
    if numbers and len({part[3] for part in each}) > 1 and each[0].start(3) <= numbers[0].start():
        return []
    return [_value(match.group()) for match in numbers]


def _is_one_of_several(text: str, place: int, low: float, high: float) -> bool:
    """Return whether the last number, at ``place``, belongs to a range or is the score for one of several criteria."""
    if any(match.end() > place for match in _RANGE.finditer(text)):
        return True
    parts = [(match, match[1] or match[4], *_values(match, 2, 3)) for match in _PART.finditer(text)]
    if len(parts) < 2 or parts[-1][0].end() <= place:
        return False
    match, name, value = parts[-1]
    others = [other for _, named, other in parts if named.lower() != name.lower() and low <= other <= high]
    return any(other != value for other in others) and not _TOTAL.search(text, parts[-2][0].end(), match.end())


def _word(text: str, answers: Mapping[str, float]) -> tuple[float | None, Status]:
    words = [w.lower() for w in re.findall(r"\w+", text)]
    given = [w for w in words if w in answers]
    if not given:
        return None, Status.REFUSED if _REFUSAL.search(text) else Status.PARSE_ERROR
    if words[0] not in answers and len(set(given)) > 1:
        return None, Status.PARSE_ERROR
    return answers[given[0]], Status.OK


def _value(text: str) -> float:
    """Parse a number; a comma before three digits separates thousands, any other comma separates decimals."""
    text = text.replace("−", "-")
    if re.fullmatch(r"-?\d+,\d{3}", text):
        text = text.replace(",", "")
    return float(text.replace(",", "."))


def _values(match: re.Match[str], *groups: int) -> list[float]:
    return [_value(text) for text in (match.group(0, *groups)[1:] if groups else match.groups()) if text]
