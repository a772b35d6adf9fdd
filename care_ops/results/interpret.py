"""Interpretation of a factor by the correlation of its score with features of the text.

Belongs here: features of a text and their rank correlation with factor scores (paper, "Interpreting
Latent Confounding Factors"). Belongs elsewhere: a causal claim, or removing a feature from the scores.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

Array = NDArray[np.float64]

FEATURES = (
    "characters",
    "words",
    "words_per_sentence",
    "list_items",
    "numbers",
    "authority_markers",
    "emoji",
    "smog",
)

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SENTENCE_END = re.compile(r"[.!?]+(?:\s|$)")
_LIST_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_AUTHORITY = re.compile(r"\[\d+\]|https?://|\(\w[^()]*,\s*\d{4}\)|\bet al\.|\bAccording to\b")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]")


def text_features(texts: Sequence[str | None]) -> Array:
    """The features named in ``FEATURES``, shape (n, 8); NaN where there is no text.

    SMOG is the grade of McLaughlin (1969) by textstat, NaN below three words.
    """
    return np.array([_features(text) for text in texts], dtype=np.float64).reshape(-1, len(FEATURES))


def feature_correlations(scores: Array, features: Array) -> Array:
    """Spearman correlation of each factor's score with each feature.

    Parameters
    ----------
    scores : (n, h) array
    features : (n, f) array

    Returns
    -------
    (h, f) array
        NaN where a feature is constant or fewer than ten items have both.
    """
    out = np.full((scores.shape[1], features.shape[1]), np.nan)
    for r in range(scores.shape[1]):
        for c in range(features.shape[1]):
            both_known = ~np.isnan(scores[:, r]) & ~np.isnan(features[:, c])
            a, b = scores[both_known, r], features[both_known, c]
            if len(a) >= 10 and np.ptp(a) > 0 and np.ptp(b) > 0:
                out[r, c] = float(np.asarray(spearmanr(a, b))[0])
    return out


def _features(text: str | None) -> list[float]:
    if text is None or not text.strip():
        return [float("nan")] * len(FEATURES)
    words = _WORD.findall(text)
    sentences = max(len(_SENTENCE_END.findall(text)), 1)
    return [
        float(len(text)),
        float(len(words)),
        len(words) / sentences,
        float(len(_LIST_ITEM.findall(text))),
        float(len(_NUMBER.findall(text))),
        float(len(_AUTHORITY.findall(text))),
        float(len(_EMOJI.findall(text))),
        _smog(text) if len(words) >= 3 else float("nan"),
    ]


def _smog(text: str) -> float:
    from textstat import textstat

    return float(textstat.smog_index(text))
