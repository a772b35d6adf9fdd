"""Words that stand for scores: ``pass`` and ``fail``, ``yes`` and ``no``, ``A``, ``B`` and ``tie``.

A word means the same number whoever writes it, so that no judge's words are numbered by themselves.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warehouse.compute import pc

_OF_ONE = {
    **{"pass": "fail", "passed": "failed", "yes": "no", "y": "n", "true": "false", "good": "bad"},
    **{"correct": "incorrect"},
}
"""Words about one answer: that for 1, and its opposite for 0."""

_OF_TWO = {
    **{"a": "b", "left": "right", "win": "lose", "won": "lost", "wins": "loses", "first": "second"},
    **{f"{what}_{a}": f"{what}_{b}" for what in ("model", "response", "answer") for a, b in ("ab", "12")},
}
"""Words about two answers: that for 1, where the first one is better, and its opposite for 0."""

_TIES = ("tie", "tied", "draw", "tie (bothbad)", "bothbad", "both_bad")

_WORDS = _OF_ONE | _OF_TWO
MEANINGS = dict.fromkeys(_WORDS, 1.0) | dict.fromkeys(_WORDS.values(), 0.0) | dict.fromkeys(_TIES, 0.5)
"""The number that each word stands for; capital letters do not count."""

EXAMPLES = "pass, fail, yes, no, A, B, tie"
"""Some of the words, for a message."""

_NAMES = pa.array(MEANINGS, pa.large_string())
_NUMBERS = np.array([*MEANINGS.values(), np.nan])


def meanings(text: pa.ChunkedArray) -> NDArray[np.float64]:
    """The number that each cell's word stands for, (rows,), NaN where it is none of the words; ``text`` is trimmed."""
    place = pc.fill_null(pc.index_in(pc.utf8_lower(text), _NAMES), len(MEANINGS))
    return _NUMBERS[place.to_numpy()]


def counted(text: pa.ChunkedArray, is_word: NDArray[np.bool_]) -> dict[str, int]:
    """How often each word occurs, in small letters."""
    found = pc.value_counts(pc.utf8_lower(text.filter(pa.array(is_word)))).to_pylist()
    return {pair["values"]: pair["counts"] for pair in found}


def told(counts: Mapping[str, int]) -> str:
    """What was made of the words that a table holds, as a sentence for a person to check."""
    spelled = {word: word.upper() if len(word) == 1 else word for word in MEANINGS if word in counts}
    times = {word: "once" if count == 1 else f"{count:,} times" for word, count in counts.items()}
    taken = [f"{spelled[word]!r} as {MEANINGS[word]:g} ({times[word]})" for word in spelled]
    of_two = any(word in counts for pair in _OF_TWO.items() for word in pair)
    meaning = "; 1 says that the first of two answers is better" if of_two else ""
    return f"words are read as numbers: {', '.join(taken)}{meaning}"
