"""Removal of invisible characters, because they distort the counts of words and characters."""

import re
from collections.abc import Sequence
from functools import cache

_JOINING = "\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18af\ua840-\ua87f\ufb50-\ufdff\ufe70-\ufefc"
_SYMBOLS = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_IDEOGRAPHS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WRITTEN = "|".join(
    (
        f"(?<=[{_JOINING}])[\u200c\u200d]",  # Persian and the scripts of India spell with them
        f"(?<=[{_SYMBOLS}\ufe0f])\u200d(?=[{_SYMBOLS}])",  # one emoji of several
        f"(?<=[{_SYMBOLS}])[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)",
        f"(?<=[{_IDEOGRAPHS}])[\ufe00-\ufe02\U000e0100-\U000e01ef]",
        "(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f]",
        "(?<=\U0001f3f4)[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f",  # flags of regions
    )
)
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and symbols that look blank."""

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_NO_WIDTH = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f"
    f"\ufe00-\ufe0f\ufeff\ufff0-\ufffb\U000e0000-\U000e0fff{_BIDI}"
)
_UNSEEN = f"({_WRITTEN})|[{_NO_WIDTH}]"
_BLANKS = f"(?: *[{_BLANK}])+ *(\n|\\Z)?"
_ANY = f"[{_BLANK}{_NO_WIDTH}]"
_RIGHT_TO_LEFT = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]"
_OVERRIDES = "[\u202d\u202e]"

_compiled = cache(re.compile)
"""Cached version of ``re.compile``; each pattern is compiled at its first use."""


def visible(text: str) -> str:
    """Remove invisible characters, except those that a script or an emoji needs.

    A run of letters that look blank becomes one space; at the end of a line, the run is removed.

    Examples
    --------
    >>> visible("ru\u00adb\u200bric")
    'rubric'
    """
    if not _compiled(_ANY).search(text):
        return text
    text = _compiled(_UNSEEN).sub(lambda match: match[1] or "", text)
    return _compiled(_BLANKS).sub(lambda match: " " if match[1] is None else match[1], text)


def has_invisible(texts: Sequence[str | None]) -> list[bool]:
    """Check each text for invisible characters other than a byte order mark and marks of right-to-left text.

    Examples
    --------
    >>> has_invisible(["plain", "na\u200bive", None])
    [False, True, False]
    """
    return [text is not None and _is_hiding(text) for text in texts]


def _is_hiding(text: str) -> bool:
    text = text.removeprefix("\ufeff")
    if _compiled(_RIGHT_TO_LEFT).search(text) and not _compiled(_OVERRIDES).search(text):
        text = re.sub(f"[{_BIDI}]", "", text)
    return visible(text) != text
