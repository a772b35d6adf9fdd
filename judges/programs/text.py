"""Text helpers that several program judges share.

Belongs here: tokenising and counting. Does not: a judgement.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")

STOP_WORDS = frozenset(
    """
    a an and are as at be been but by can do for from had has have he her his how i if in into is it its
    me my no not of on or our she so some such than that the their them then there these they this those
    to us was we were what when where which who why will with would you your
    """.split()
)


def words(text: str | None) -> list[str]:
    """Lower-case words in order."""
    return [word.lower() for word in _WORD.findall(text or "")]


def content_words(text: str | None) -> list[str]:
    """Words that are not stop words."""
    return [word for word in words(text) if word not in STOP_WORDS]


def sentences(text: str | None) -> list[str]:
    """Sentences and lines with at least one word."""
    return [s.strip() for s in _SENTENCE.findall(text or "") if _WORD.search(s)]


def bounded(share: float) -> float:
    """A share in [0, 1] as a score in [0, 10]."""
    return 10.0 * min(max(share, 0.0), 1.0)
