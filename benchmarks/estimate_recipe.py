"""Hours of a GPU, and dollars, that the recipe of docs/paper.md takes: from rates, since nobody has walked it.

``python -m benchmarks.estimate_recipe > benchmarks/results/paper-recipe.md``
"""

from __future__ import annotations

import re
import sys

from judges import panels

PEAK, SHARE = 312e12, 0.5
"""Operations a second of an A100 in bfloat16, and the share of them that reading prompts reaches (.45 to .6)."""

LOAD_MINUTES, GPU_HOUR, MILLION_TOKENS = 2.0, 2.0, 0.10
"""Assumed: minutes to fetch and load a model, dollars for an hour of an A100 and for a million tokens elsewhere."""

SETS = {
    "asset": (300, 700),
    "feedbackqa": (5_000, 450),
    "feedbackqa_loadings": (5_000, 450),
    "judgment_bias": (600, 400),
    "review_5k": (800, 12_000),
    "summarize_axis": (5_000, 800),
    "ultrafeedback": (5_000, 700),
    "yelp": (5_000, 450),
    "chatbot_arena": (5_000, 900),
    "civilcomments": (5_000, 450),
    "pku_better": (5_000, 700),
    "pku_safer": (5_000, 700),
    "rlvr_openings": (7_000, 250),
    "shp": (5_000, 900),
    "summarize_comparisons": (5_000, 900),
}
"""Different questions, at most as many as the catalog draws, and tokens of one; both are assumed."""

BILLIONS = {"Phi-4-mini": 3.8}


def billions(model: str) -> float:
    """Parameters of a model, by its name."""
    known = next((size for name, size in BILLIONS.items() if name in model), None)
    named = re.search(r"(\d+(?:\.\d+)?)[bB]\b", model)
    return known if known is not None or named is None else float(named[1])


def main() -> None:
    """Print the page."""
    rosters = [panels.find(name) for name in panels.names()]
    models = {m["name"]: m["model"] for r in rosters if r.testsets for m in r.models}
    rows, hours, tokens = list[str](), 0.0, 0.0
    for testset, (questions, length) in SETS.items():
        judges = [name for name in models if testset in panels.scored_in_the_paper(name)]
        size = sum(billions(models[name]) for name in judges)
        its_hours = 2e9 * size * questions * length / (PEAK * SHARE) / 3600
        its_tokens = questions * length * len(judges) / 1e6
        cells = (
            testset,
            f"{questions:,}",
            f"{length:,}",
            len(judges),
            f"{size:.0f}",
            f"{its_hours:.1f}",
            f"{its_tokens:.0f}",
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
        hours, tokens = hours + its_hours, tokens + its_tokens
    loads = len(models) * LOAD_MINUTES / 60
    total = hours + loads
    sys.stdout.write(
        f"""# What the recipe for the paper's tables takes

By `python -m benchmarks.estimate_recipe`: from rates, not measured, and at best. Two operations a parameter and
token, at {SHARE:.0%} of an A100's {PEAK / 1e12:.0f} Tflop/s, which small models do not reach; questions and tokens are
assumed. `care run --dry-run` says it for the sets as they are.

| test set | questions | tokens of one | judges | their parameters, billions | hours | million tokens |
|---|---|---|---|---|---|---|
{chr(10).join(rows)}

Reading takes {hours:.0f} hours, loading {len(models)} models {loads:.1f}: about {total:.0f} hours,
{total * GPU_HOUR:.0f} dollars at {GPU_HOUR:g} an hour. At an endpoint {tokens:,.0f} million tokens cost
{tokens * MILLION_TOKENS:.0f} dollars at {MILLION_TOKENS:.2f} a million. The paper says up to three hours a set.
"""
    )


if __name__ == "__main__":
    main()
