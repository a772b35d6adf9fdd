"""Generators of simulated panels with known truth; each generator simulates other errors of the judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True)
class Drawn:
    """Simulated panel: scores (n, p), family of each judge, truth (n,), and features of the texts."""

    scores: Array
    families: list[str]
    truth: Array
    features: Mapping[str, Array] = field(default_factory=dict[str, Array])


def _no_families(p: int) -> list[str]:
    return [f"j{k}" for k in range(p)]


def without_texts(drawn: Drawn) -> Drawn:
    """Return the same panel without features of texts."""
    return replace(drawn, features={})


def without_families(drawn: Drawn) -> Drawn:
    """Return the same panel without declared families."""
    return replace(drawn, families=_no_families(drawn.scores.shape[1]))


def graded(x: Array, kind: str, rng: Rng) -> Array:
    """Convert continuous scores of mean 5.5 to grades up to 10 or to 5, or to votes, or return them unchanged."""
    if kind == "ten":
        return np.clip(np.round(x), 1, 10)
    if kind == "five":
        return np.clip(np.round((x - 5.5) * 0.8 + 3), 1, 5)
    if kind == "votes":
        return (x > 5.5 + rng.normal(size=x.shape[1]) * 0.5).astype(float)
    return x


def _words(rng: Rng, n: int) -> dict[str, Array]:
    return {"words": np.log(np.maximum(8, np.round(80 + 30 * rng.normal(size=n))))}


def ordinary(
    rng: Rng,
    *,
    n: int | None = None,
    p: int | None = None,
    liked: float = 0.5,
    strength: float = 1.0,
    rho: float = 0.0,
    kind: str = "ten",
    missing: float = 0.0,
    shared: float = 0.4,
) -> Drawn:
    """Simulate three to five vendors with one to four judges each; some vendors reward a style of the words.

    ``rho`` is the correlation of quality with the style, ``strength`` the reward by biased vendors, and ``shared`` the
    strength of another effect that the judges of a vendor share.
    """
    n = n or int(rng.choice([120, 300, 800]))
    vendors = min(p or 5, int(rng.integers(3, 6)))
    sizes = 1 + rng.multinomial(p - vendors, np.ones(vendors) / vendors) if p else rng.integers(1, 5, vendors)
    if sizes.sum() < 4:
        sizes[0] += 4 - sizes.sum()
    quality = rng.normal(size=n)
    style = rho * quality + np.sqrt(1 - rho**2) * rng.normal(size=n)
    biased = np.zeros(vendors, dtype=bool)
    biased[rng.permutation(vendors)[: max(1, round(liked * vendors))]] = True
    columns, families = [], []
    for vendor, size in enumerate(sizes):
        own = rng.normal(size=n)
        for _ in range(size):
            reward = strength * (rng.uniform(0.7, 1.3) if biased[vendor] else rng.uniform(0, 0.3))
            noise = rng.normal(size=n) * rng.uniform(0.6, 1.1)
            columns.append(5.5 + rng.uniform(0.5, 1.0) * quality + reward * style + shared * own + noise)
            families.append(f"v{vendor}")
    x = graded(np.column_stack(columns), kind, rng)
    x[rng.random(x.shape) < missing] = np.nan
    words = np.maximum(8, np.round(80 + 30 * style + 6 * rng.normal(size=n)))
    return Drawn(x, families, quality, {"words": np.log(words)})


def copies(
    rng: Rng, *, p: int = 10, k: int = 2, n: int = 300, alike: float = 0.99, honest: float = 0.55, kind: str = "real"
) -> Drawn:
    """Simulate judges with correlation ``honest``, and k judges that are near-copies and unrelated to quality."""
    quality = rng.normal(size=n)
    x = np.sqrt(honest) * quality[:, None] + np.sqrt(1 - honest) * rng.normal(size=(n, p))
    x[:, :k] = np.sqrt(alike) * rng.normal(size=n)[:, None] + np.sqrt(1 - alike) * rng.normal(size=(n, k))
    return Drawn(graded(5.5 + 1.3 * x, kind, rng), _no_families(p), quality, _words(rng, n))


def twins(rng: Rng, *, p: int = 10, k: int = 2, n: int = 300, kind: str = "real") -> Drawn:
    """Simulate p judges, of which k are the same judge, asked k times."""
    quality = rng.normal(size=n)
    x = np.sqrt(0.55) * quality[:, None] + np.sqrt(0.45) * rng.normal(size=(n, p))
    x[:, 1:k] = x[:, :1] + 0.15 * rng.normal(size=(n, k - 1))
    return Drawn(graded(5.5 + 1.3 * x, kind, rng), _no_families(p), quality, _words(rng, n))


def one_factor(
    rng: Rng, *, least: float = 0.3, most: float = 0.9, n: int | None = None, p: int | None = None, kind: str = "ten"
) -> Drawn:
    """Simulate judges that differ only in reliability."""
    n, p = n or int(rng.choice([120, 300, 800])), p or int(rng.integers(4, 13))
    quality, reliability = rng.normal(size=n), rng.uniform(least, most, p)
    x = np.sqrt(reliability) * quality[:, None] + np.sqrt(1 - reliability) * rng.normal(size=(n, p))
    return Drawn(graded(5.5 + 1.6 * x, kind, rng), _no_families(p), quality, _words(rng, n))


def item_response(rng: Rng, *, n: int = 300, p: int = 8) -> Drawn:
    """Simulate grades by a two-parameter item response model."""
    quality, slopes = rng.normal(size=n), rng.uniform(0.6, 2.5, p)
    cuts = 1.2 * np.sort(rng.normal(size=(p, 4)), axis=1)
    above = 1 / (1 + np.exp(-slopes[None, :, None] * (quality[:, None, None] - cuts[None])))
    x = 1.0 + (rng.random((n, p, 1)) < above).sum(axis=2)
    return Drawn(x, _no_families(p), quality, _words(rng, n))


def uneven_noise(rng: Rng, *, heavy: bool, n: int = 300, p: int = 8) -> Drawn:
    """Simulate items that are harder for all judges or, if ``heavy``, noise with heavy tails (Student's t, 2 df)."""
    quality, slopes = rng.normal(size=n), rng.uniform(0.6, 1.1, p)
    if heavy:
        x = slopes * quality[:, None] + rng.standard_t(2, size=(n, p)) * rng.uniform(0.4, 0.9, p)
        return Drawn(5.5 + 1.3 * x, _no_families(p), quality, _words(rng, n))
    hard = np.exp(0.6 * rng.normal(size=n))[:, None]
    x = slopes * quality[:, None] + hard * rng.normal(size=(n, p)) * rng.uniform(0.6, 1.1, p)
    return Drawn(graded(5.5 + 1.3 * x, "ten", rng), _no_families(p), quality, _words(rng, n))


def echo(rng: Rng, *, n: int = 300, p: int = 8) -> Drawn:
    """Simulate a panel in which one judge repeats the mean of the other judges."""
    quality = rng.normal(size=n)
    x = rng.uniform(0.6, 1.0, p) * quality[:, None] + rng.normal(size=(n, p)) * rng.uniform(0.6, 1.1, p)
    x[:, 0] = x[:, 1:].mean(axis=1) + 0.3 * rng.normal(size=n)
    return Drawn(graded(5.5 + 1.3 * x, "ten", rng), _no_families(p), quality, _words(rng, n))


def pairs(rng: Rng, *, n: int = 300, p: int = 7) -> Drawn:
    """Simulate votes on pairs by judges with different biases for a side."""
    quality = rng.normal(size=n)
    x = rng.uniform(0.6, 1.1, p) * quality[:, None] + rng.normal(size=(n, p)) * rng.uniform(0.6, 1.1, p)
    x = x + 0.6 * rng.normal(size=p)
    return Drawn(np.where(x > 0.35, 1.0, np.where(x < -0.35, 0.0, 0.5)), _no_families(p), quality, _words(rng, n))


def nothing(rng: Rng, *, n: int = 300, p: int = 8) -> Drawn:
    """Simulate judges whose scores are only noise."""
    return Drawn(
        graded(5.5 + 1.5 * rng.normal(size=(n, p)), "ten", rng), _no_families(p), rng.normal(size=n), _words(rng, n)
    )


def reversed_majority(rng: Rng) -> Drawn:
    """Simulate ten judges, six of which reverse the scale."""
    drawn = one_factor(rng, n=300, p=10, least=0.4, most=0.6)
    drawn.scores[:, :6] = 11 - drawn.scores[:, :6]
    return drawn


def prompts_of_models(rng: Rng) -> Drawn:
    """Simulate three base models with two to four prompts each, which share the model's bias for lists."""
    n = int(rng.choice([200, 500]))
    quality, items = rng.normal(size=n), np.where(rng.random(n) < 0.4, 0, rng.poisson(5, n)).astype(float)
    lists = (items - items.mean()) / items.std()
    columns, families = [], []
    for model in range(3):
        bias, own = rng.normal() * 0.7, rng.normal(size=n)
        for _ in range(int(rng.integers(2, 5))):
            bent = quality + 0.2 * quality**2
            columns.append(0.7 * bent + bias * lists + 0.5 * own + rng.normal(size=n) * rng.uniform(0.5, 1.0))
            families.append(f"model {model}")
    x = graded(5.5 + 1.2 * np.column_stack(columns), "ten", rng)
    return Drawn(x, families, quality, {**_words(rng, n), "list_items": np.log1p(items)})


def ceilings(rng: Rng) -> Drawn:
    """Simulate lenient judges that give most items one of the two best grades; thresholds differ between judges."""
    n, p = int(rng.choice([150, 400])), int(rng.integers(5, 11))
    quality = rng.normal(size=n)
    x = np.sqrt(rng.uniform(0.3, 0.8, p)) * quality[:, None] + 0.6 * rng.normal(size=(n, p))
    cuts = np.sort(rng.normal(-0.9, 0.6, size=(p, 4)), axis=1)
    return Drawn(1.0 + (x[:, :, None] > cuts[None]).sum(axis=2), _no_families(p), quality, _words(rng, n))


def topics(rng: Rng) -> Drawn:
    """Simulate two topics; three judges score quality well on each topic, and two judges on both."""
    n, p = 400, 8
    quality, first = rng.normal(size=n), rng.random(n) < 0.5
    x = np.empty((n, p))
    for j in range(p):
        knows = np.ones(n, dtype=bool) if j < 2 else (first if j % 2 else ~first)
        x[:, j] = np.where(knows, 1.0, 0.3) * quality + rng.normal(size=n)
    return Drawn(graded(5.5 + 1.2 * x, "ten", rng), _no_families(p), quality, _words(rng, n))


def colluders(rng: Rng) -> Drawn:
    """Simulate nine judges, three of which agree in advance on scores, unrelated to quality, for 60 % of the items."""
    n, p = 350, 9
    quality = rng.normal(size=n)
    x = rng.uniform(0.6, 1.0, p) * quality[:, None] + rng.normal(size=(n, p)) * rng.uniform(0.6, 1.0, p)
    agreed, deal = rng.random(n) < 0.6, 1.2 * rng.normal(size=n)
    x[agreed, :3] = deal[agreed, None] + 0.2 * rng.normal(size=(int(agreed.sum()), 3))
    return Drawn(graded(5.5 + 1.2 * x, "ten", rng), _no_families(p), quality, _words(rng, n))


def longer_is_better(rng: Rng) -> Drawn:
    """Simulate quality that grows with the logarithm of the number of words; no judge has a length bias."""
    n, p = 300, int(rng.integers(5, 10))
    words = np.exp(rng.normal(4.3, 0.6, n))
    quality = 0.8 * (np.log(words) - 4.3) / 0.6 + 0.6 * rng.normal(size=n)
    x = rng.uniform(0.6, 1.0, p) * quality[:, None] + rng.normal(size=(n, p)) * rng.uniform(0.5, 1.0, p)
    return Drawn(graded(5.5 + 1.2 * x, "ten", rng), _no_families(p), quality, {"words": np.log(words)})


def copied_pairs(rng: Rng) -> Drawn:
    """Simulate votes on pairs; two or three judges copy a judge that mostly follows a property unrelated to quality."""
    n, p, k = int(rng.choice([150, 400])), int(rng.integers(6, 11)), int(rng.integers(2, 4))
    quality, side = rng.normal(size=n), rng.normal(size=n)
    x = rng.uniform(0.6, 1.1, p) * quality[:, None] + rng.normal(size=(n, p)) * rng.uniform(0.6, 1.1, p)
    x[:, :k] = (0.4 * quality + 1.2 * side)[:, None] + 0.2 * rng.normal(size=(n, k))
    cuts = 0.4 * rng.normal(size=p)
    return Drawn(
        np.where(x > cuts + 0.3, 1.0, np.where(x < cuts - 0.3, 0.0, 0.5)), _no_families(p), quality, _words(rng, n)
    )


def copied_stars(rng: Rng) -> Drawn:
    """Simulate one to five stars with thresholds that differ between judges, and copies of an unreliable judge."""
    n, p = int(rng.choice([150, 400])), int(rng.integers(6, 13))
    k = int(rng.integers(2, max(3, round(0.4 * p)) + 1))
    quality = rng.normal(size=n)
    x = np.sqrt(rng.uniform(0.3, 0.7, p)) * quality[:, None] + 0.7 * rng.normal(size=(n, p))
    x[:, :k] = (0.3 * quality + rng.normal(size=n))[:, None] + 0.2 * rng.normal(size=(n, k))
    cuts = np.sort(rng.normal(0.0, 0.8, size=(p, 4)), axis=1)
    return Drawn(1.0 + (x[:, :, None] > cuts[None]).sum(axis=2), _no_families(p), quality, _words(rng, n))


def better_judges(rng: Rng) -> Drawn:
    """Simulate two to four good judges, nearly as similar as copies, among poorer judges that share an error."""
    n, k, rest = 300, int(rng.integers(2, 5)), int(rng.integers(5, 9))
    quality, mistake = rng.normal(size=(2, n))
    good = quality[:, None] + rng.uniform(0.2, 0.45) * rng.normal(size=(n, k))
    poor = rng.uniform(0.2, 0.5, rest) * quality[:, None] + rng.uniform(0.5, 0.8, rest) * mistake[:, None]
    x = np.column_stack([good, poor + 0.6 * rng.normal(size=(n, rest))])
    return Drawn(graded(5.5 + 1.5 * x, "real", rng), _no_families(k + rest), quality, _words(rng, n))


def better_judges_graded(rng: Rng) -> Drawn:
    """Simulate grades of good judges, as in ``better_judges``, among two groups of poorer judges with an error each."""
    n, k, rest = 300, int(rng.integers(2, 5)), int(rng.integers(6, 11))
    quality, *mistakes = rng.normal(size=(3, n))
    good = quality[:, None] + 0.3 * rng.normal(size=(n, k))
    poor = [0.4 * quality + 0.6 * mistakes[j % 2] + 0.5 * rng.normal(size=n) for j in range(rest)]
    x = np.column_stack([good, *poor])
    return Drawn(graded(5.5 + 1.8 * x, "ten", rng), _no_families(k + rest), quality, _words(rng, n))


def better_judges_unconfirmed(rng: Rng, *, families: bool) -> Drawn:
    """Simulate two to five good judges, nearly as similar as copies, among judges that share another criterion."""
    n, k, rest = int(rng.choice([150, 300, 600])), int(rng.integers(2, 6)), int(rng.integers(4, 12))
    quality, mistake = rng.normal(size=(2, n))
    good = quality[:, None] + rng.uniform(0.2, 0.4) * rng.normal(size=(n, k))
    poor = rng.uniform(-0.1, 0.15, rest) * quality[:, None] + rng.uniform(0.6, 1.0, rest) * mistake[:, None]
    x = np.column_stack([good, poor + 0.6 * rng.normal(size=(n, rest))])
    shared = ["good"] * k + [f"poor {j % 3}" for j in range(rest)] if families else _no_families(k + rest)
    return Drawn(graded(5.5 + 1.5 * x, "ten", rng), shared, quality, _words(rng, n))


def one_better_judge(rng: Rng) -> Drawn:
    """Simulate one good judge among poorer judges that share an error."""
    n, rest = int(rng.choice([150, 400])), int(rng.integers(4, 10))
    quality, mistake = rng.normal(size=(2, n))
    good = quality + 0.3 * rng.normal(size=n)
    poor = rng.uniform(0.3, 0.6, rest) * quality[:, None] + rng.uniform(0.4, 0.7, rest) * mistake[:, None]
    x = np.column_stack([good, poor + 0.5 * rng.normal(size=(n, rest))])
    return Drawn(graded(5.5 + 1.8 * x, "ten", rng), _no_families(1 + rest), quality, _words(rng, n))


def uneven_twins(rng: Rng) -> Drawn:
    """Simulate judges that differ in reliability; one judge was asked two or three times."""
    drawn = one_factor(rng, least=0.25, most=0.75, kind="real")
    again = drawn.scores[:, :1] + 0.2 * rng.normal(size=(len(drawn.truth), int(rng.integers(1, 3))))
    scores = np.column_stack([drawn.scores, again])
    return replace(drawn, scores=scores, families=_no_families(scores.shape[1]))


def half_blind(rng: Rng) -> Drawn:
    """Simulate quality that depends partly on length; about half of the judges ignore length."""
    n, p = 300, int(rng.integers(6, 11))
    words, rest = rng.normal(size=(2, n))
    share = rng.uniform(0.4, 0.7)
    quality = share * words + np.sqrt(1 - share**2) * rest
    blind = rng.random(p) < 0.5
    x = np.where(blind, rest[:, None], quality[:, None]) + rng.normal(size=(n, p))
    return Drawn(graded(5.5 + 1.5 * x, "ten", rng), _no_families(p), quality, {"words": words})


def one_vendor_differs(rng: Rng, *, facts: bool) -> Drawn:
    """Simulate a vendor without the bias of the others or, if ``facts``, one that alone notices invented facts."""
    n, sizes = int(rng.choice([150, 400])), [int(rng.integers(3, 5)), *rng.integers(1, 4, int(rng.integers(3, 5)))]
    families = [f"v{k}" for k, size in enumerate(sizes) for _ in range(size)]
    separate = np.array([family == "v0" for family in families])
    quality, bias = rng.normal(size=(2, n))
    x = quality[:, None] + 0.8 * rng.normal(size=(n, len(families)))
    invented = 2.0 * (facts & (rng.random(n) < 0.2))
    x += np.outer(-invented, separate) if facts else np.outer(rng.uniform(0.3, 0.6) * bias, ~separate)
    return Drawn(graded(5.5 + 1.5 * x, "ten", rng), families, quality - invented, _words(rng, n))


def few_unbiased(rng: Rng) -> Drawn:
    """Simulate four or five judges, all but two with a shared bias, without texts and families."""
    n, p = int(rng.choice([200, 400])), int(rng.integers(4, 6))
    quality, bias = rng.normal(size=(2, n))
    x = quality[:, None] + np.outer(bias, np.where(np.arange(p) < p - 2, rng.uniform(0.5, 1.0), 0.0))
    return Drawn(graded(5.5 + 1.3 * (x + 0.8 * rng.normal(size=(n, p))), "ten", rng), _no_families(p), quality)


def blocks(rng: Rng) -> Drawn:
    """Simulate items in blocks; most judges score half of the blocks, and a few judges score all."""
    n, p, parts = 240, int(rng.integers(8, 14)), int(rng.choice([2, 4, 6]))
    quality = rng.normal(size=n)
    x = graded(5.5 + 1.5 * (quality[:, None] + rng.normal(size=(n, p)) * rng.uniform(0.6, 1.3, p)), "ten", rng)
    for j in range(int(rng.integers(2, 5)), p):
        x[~np.isin(np.arange(n) % parts, rng.choice(parts, parts // 2, replace=False)), j] = np.nan
    return Drawn(x, _no_families(p), quality, _words(rng, n))


def hard_prompts(rng: Rng) -> Drawn:
    """Simulate fifteen systems on twenty prompts; half of the judges score all answers to some prompts lower."""
    p = int(rng.integers(6, 10))
    prompt, system = np.repeat(np.arange(20), 15), np.tile(np.arange(15), 20)
    quality = rng.normal(size=15)[system] + rng.normal(size=300)
    taken_for_hard = np.outer(rng.normal(size=20)[prompt], rng.uniform(0.3, 1.0, p) * (np.arange(p) < p // 2))
    x = quality[:, None] - taken_for_hard + 0.9 * rng.normal(size=(300, p))
    return Drawn(graded(5.5 + 1.3 * x, "ten", rng), _no_families(p), quality, _words(rng, 300))


def sure_where_blind(rng: Rng) -> Drawn:
    """Simulate judges of which half give hard items nearly the same score; the other half are noisy on all items."""
    n, p = int(rng.choice([100, 200, 400])), int(rng.integers(8, 15))
    quality, hard, sure = rng.normal(size=n), rng.random(n) < 0.5, np.arange(p) < p // 2
    seen = np.where(np.outer(hard, sure), 0.0, 1.2 * quality[:, None])
    return Drawn(np.round(5 + seen + rng.normal(size=(n, p)) * np.where(sure, 0.5, 1.6)), _no_families(p), quality)


def two_qualities(rng: Rng) -> Drawn:
    """Simulate quality as the sum of helpfulness and safety; each judge weights these two differently."""
    n, p = int(rng.choice([60, 100, 200, 400])), int(rng.integers(8, 13))
    helpful, rest = rng.normal(size=(2, n))
    safe, weight = 0.95 * rest - 0.3 * helpful, rng.uniform(0, 1, p)
    x = 1.2 * (np.outer(helpful, weight) + np.outer(safe, 1 - weight)) + 1.2 * rng.normal(size=(n, p))
    return Drawn(np.round(5 + x), _no_families(p), helpful + safe)


def strict_and_lenient(rng: Rng) -> Drawn:
    """Simulate independent pass-or-fail votes; pass rates of the judges range from about 1/6 to 5/6."""
    n, p = int(rng.choice([150, 400])), int(rng.integers(5, 10))
    quality = rng.normal(size=n)
    x = quality[:, None] + rng.normal(size=(n, p)) * rng.uniform(0.5, 0.9, p)
    return Drawn((x > 1.25 * rng.uniform(-1, 1, p)).astype(float), _no_families(p), quality, _words(rng, n))


def copies_within_a_bias(rng: Rng) -> Drawn:
    """Simulate an ordinary panel in which one judge also appears under two other names."""
    drawn = ordinary(rng, n=300)
    j = int(rng.integers(drawn.scores.shape[1]))
    again = np.column_stack([drawn.scores[:, j] + rng.normal(size=300) * 0.25 for _ in range(2)])
    return replace(
        drawn, scores=np.column_stack([drawn.scores, again]), families=[*drawn.families, "other x", "other y"]
    )


def unsure_of_poor(rng: Rng, *, kind: str) -> Drawn:
    """Simulate judges that agree on good answers and disagree widely on poor answers."""
    quality, p = rng.normal(size=300), 8
    spread = np.where(quality < 0, rng.uniform(1, 2), rng.uniform(0.4, 0.8))[:, None]
    x = quality[:, None] + spread * rng.normal(size=(300, p)) * rng.uniform(0.8, 1.2, p)
    return Drawn(graded(5.5 + 1.3 * x, kind, rng), _no_families(p), quality, _words(rng, 300))


def noticed(rng: Rng) -> Drawn:
    """Simulate answers of which 30 % have a grave error; each judge notices or overlooks an error independently."""
    base, grave = 0.7 * rng.normal(size=300), rng.random(300) < 0.3
    noticing = rng.random((300, 8)) < rng.uniform(0.2, 0.8, 8)
    x = base[:, None] + 0.7 * rng.normal(size=(300, 8)) - 3.0 * (grave[:, None] & noticing)
    return Drawn(graded(8 + x, "ten", rng), _no_families(8), base - 3.0 * grave, _words(rng, 300))


def uneven_grades(rng: Rng, *, wide_are_good: bool) -> Drawn:
    """Simulate judges of which the better (``wide_are_good``) or the poorer use a wider range of the scale."""
    n, p = int(rng.choice([100, 400])), int(rng.integers(5, 12))
    quality, noise = rng.normal(size=n), np.sort(rng.uniform(0.4, 2.0, p))
    spread = np.linspace(1.8, 0.8, p) if wide_are_good else np.linspace(0.8, 1.8, p)
    x = quality[:, None] + noise * rng.normal(size=(n, p))
    x = spread * x / np.sqrt(1 + noise**2)
    return Drawn(np.clip(np.round(5.5 + x), 1, 10), _no_families(p), quality, _words(rng, n))


def one_sided(rng: Rng) -> Drawn:
    """Simulate judges whose noise only lowers scores (exponential noise)."""
    n, p = int(rng.choice([80, 300])), int(rng.integers(5, 14))
    quality = rng.normal(size=n)
    x = rng.uniform(0.7, 1.1, p) * quality[:, None] - rng.exponential(size=(n, p)) * rng.uniform(0.5, 1.5, p)
    return Drawn(x, _no_families(p), quality, _words(rng, n))


def easy_votes(rng: Rng) -> Drawn:
    """Simulate easy pass-or-fail votes with few, independent errors."""
    n, p = int(rng.choice([150, 300, 1000])), int(rng.integers(4, 10))
    passes = rng.random(n) < rng.choice([0.2, 0.5])
    wrong = rng.random((n, p)) < rng.uniform(0.002, 0.05, p)
    return Drawn((passes[:, None] ^ wrong).astype(float), _no_families(p), passes.astype(float))


def shared_false_passes(rng: Rng) -> Drawn:
    """Simulate pass-or-fail votes of five to seven judges; all except two tend to pass the same bad answers."""
    n, p = int(rng.choice([300, 1500])), int(rng.integers(5, 8))
    passes = rng.random(n) < rng.choice([0.2, 0.5])
    decoy = (rng.random(n) < 0.15) & ~passes
    liked = np.outer(decoy, np.where(np.arange(p) < p - 2, 4.0, 0.0))
    x = np.where(passes, 1.5, -1.5)[:, None] + liked + rng.logistic(size=(n, p))
    return Drawn((x > 0).astype(float), _no_families(p), passes.astype(float))


def pairs_by_length(rng: Rng) -> Drawn:
    """Simulate votes on pairs without texts; all except two or three judges prefer the longer answer."""
    n, p, honest = int(rng.choice([300, 1000])), int(rng.integers(6, 9)), int(rng.integers(2, 4))
    quality, longer = rng.normal(size=(2, n))
    bias = np.where(np.arange(p) < p - honest, rng.uniform(0.3, 0.7, p), 0.0)
    x = quality[:, None] + np.outer(longer, bias) + rng.normal(size=(n, p))
    return Drawn((x > 0).astype(float), _no_families(p), quality)
