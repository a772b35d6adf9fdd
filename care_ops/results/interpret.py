"""Text features of the items, and their correlations with the scores of factors."""

import re
import warnings
from collections.abc import Collection, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from care_ops.errors import InputError
from care_ops.metrics import rank_correlation
from care_ops.minimum_sizes import MIN_ITEMS
from care_ops.scores import Array, correlation, ranks
from care_ops.visible import visible

FEATURES = ("characters", "words", "words_per_sentence", "list_items", "numbers", "authority_markers", "emoji", "smog")

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Letters of scripts without spaces (Thai, Lao, Burmese, Khmer, Japanese, Chinese); each letter counts as a word."""

_SENTENCE_END = re.compile(r"[.!?]+(?:\s|$)|[。！？｡]+")
_LIST_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_AUTHORITY = re.compile(r"\[\d+\]|https?://|\(\w[^()]*,\s*\d{4}\)|\bet al\.|\bAccording to\b")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]")


def text_features(texts: Sequence[str | None]) -> Array:
    """Compute the text features named in ``FEATURES`` as an array (n, 8), with NaN for a missing text.

    ``smog`` is the readability grade of McLaughlin (1969), computed by textstat; NaN for fewer than three words.
    """
    return np.array([_features(text) for text in texts], dtype=np.float64).reshape(-1, len(FEATURES))


COUNTED = ("words", "sentences", "list_items", "numbers")
"""Text counts whose effects on individual judges ``care`` removes."""


def counted(responses: Sequence[str | None], others: Sequence[str | None] | None = None) -> dict[str, Array]:
    """Count the features in ``COUNTED``, such as words, in each response; return arrays (n,) of log(1 + count) by name.

    For pairs, the result is the difference between the first and the second response. A missing text gives NaN. The
    result is empty if all texts are missing.

    Examples
    --------
    >>> counted(["one two", None])["words"].round(2)
    array([1.1, nan])
    """
    if list(responses).count(None) == len(responses):
        return {}
    counts = np.log1p([_counted(text) for text in responses])
    if others is not None and any(text is not None for text in others):
        counts = counts - np.log1p([_counted(text) for text in others])
    if np.isnan(counts).all():
        return {}
    return {name: counts[:, k] for k, name in enumerate(COUNTED)}


def _counted(text: str | None) -> list[float]:
    text = visible(text or "")
    if not text.strip():
        return [float("nan")] * len(COUNTED)
    words = text.split() if (spaced := _spaced(text)) == text else _WORD.findall(spaced)
    counts = (len(words), len(_SENTENCE_END.findall(text)), len(_LIST_ITEM.findall(text)))
    return [*counts, len(_NUMBER.findall(text))]


def check_declared(not_quality: Collection[str], features: Collection[str], where: str) -> None:
    """Raise ``InputError`` if ``not_quality`` names a feature that the items do not have."""
    unknown = [name for name in not_quality if name not in features]
    if unknown:
        known = f"choose from {', '.join(features)}" if features else "add the texts of the items"
        raise InputError(f"{where}: not_quality names {unknown[0]!r}, which is not a feature of these items; {known}")


def feature_correlations(scores: Array, features: Array) -> Array:
    """Compute the Spearman correlation between each factor's scores and each feature.

    Parameters
    ----------
    scores : (n, h) array
    features : (n, f) array

    Returns
    -------
    (h, f) array
        NaN if a feature is constant, or fewer than ten items have a score and the feature.
    """
    # A complete column is ranked once, not for every column that it is compared with.
    ranked = [[None if np.isnan(c).any() else ranks(c) for c in columns.T] for columns in (scores, features)]
    out = np.empty((scores.shape[1], features.shape[1]))
    for (r, of_score), (c, of_feature) in product(*map(enumerate, ranked)):
        if of_score is None or of_feature is None:
            out[r, c] = rank_correlation(scores[:, r], features[:, c], at_least=MIN_ITEMS)
        else:
            out[r, c] = correlation(of_score, of_feature, at_least=MIN_ITEMS)
    return out


def _features(text: str | None) -> list[float]:
    text = visible(text or "")
    if not text.strip():
        return [float("nan")] * len(FEATURES)
    words = _WORD.findall(_spaced(text))
    sentences = max(len(_SENTENCE_END.findall(text)), 1)
    counts = [len(pattern.findall(text)) for pattern in (_LIST_ITEM, _NUMBER, _AUTHORITY, _EMOJI)]
    smog = float(_textstat().smog_index(text)) if len(words) >= 3 else float("nan")
    return [len(text), len(words), len(words) / sentences, *counts, smog]


def _spaced(text: str) -> str:
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


@cache
def _textstat() -> Any:
    """Import textstat without the deprecation warning about pkg_resources."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "pkg_resources is deprecated", module=r"textstat\.")
        from textstat import textstat
    return textstat
