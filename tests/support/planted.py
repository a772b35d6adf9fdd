"""Simulated votes with known truth, for tests of CARE and of other libraries; needs only numpy."""

import numpy as np


def votes(seed: int, n: int, p: int, classes: int, missing: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw votes; return truth (n,), grades (n, p) with -1 for missing grades, and each judge's accuracy (p,)."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, n)
    accuracy = rng.uniform(1.05 / classes + 0.05, 0.85, p)
    wrong = (truth[:, None] + rng.integers(1, classes, (n, p))) % classes
    grades = np.where(rng.random((n, p)) < accuracy, truth[:, None], wrong)
    grades[rng.random((n, p)) < missing] = -1
    return truth, grades, accuracy


PANELS = {
    "two classes": {"seed": 1, "n": 1_500, "p": 12, "classes": 2, "missing": 0.1},
    "four classes": {"seed": 2, "n": 1_500, "p": 9, "classes": 4, "missing": 0.1},
}


def duels(seed: int = 3, systems: int = 6, games: int = 900) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw games between systems of known strength, as (left, right, whether left wins)."""
    rng = np.random.default_rng(seed)
    strength = np.linspace(-1.0, 1.0, systems)
    left = rng.integers(0, systems, games)
    right = (left + rng.integers(1, systems, games)) % systems
    wins = rng.random(games) < 1 / (1 + np.exp(strength[right] - strength[left]))
    return left, right, wins


def crowd(seed: int, n: int, p: int, each: int, grades: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Draw crowd workers; return quality (n,) and scores (n, at most p), NaN if a worker was not asked.

    A fifth of the workers answer at random. The others follow quality with different accuracy, and each has a different
    mean. The k-th busiest worker gets a share of the items proportional to 1 / k. Scores are ``grades`` grades, or
    real numbers if ``grades`` is None.
    """
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n)
    skill = rng.choice([0.0, 0.5, 1.0, 1.5], size=p, p=[0.2, 0.3, 0.3, 0.2])
    level = rng.normal(scale=0.5, size=p)
    work = rng.permutation(1.0 / np.arange(1, p + 1))
    scores = np.full((n, p), np.nan)
    for i in range(n):
        asked = rng.choice(p, each, replace=False, p=work / work.sum())
        scores[i, asked] = skill[asked] * quality[i] + level[asked] + rng.normal(size=each)
    if grades == 2:
        scores = np.where(np.isnan(scores), np.nan, (scores > 0).astype(float))
    elif grades is not None:
        scores = np.clip(np.round(1.2 * scores + (grades + 1) / 2), 1, grades)
    return quality, scores[:, ~np.isnan(scores).all(axis=0)]
