"""The kinds of simulated panels: generators with their options.

Thresholds of ``care`` and of its verdict were chosen on the kinds in ``CHOSEN_ON``, with other seeds. The kinds in
``HELD_OUT`` were written before their first result, and nothing was chosen on them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.studies.panels import generators as draw
from benchmarks.studies.panels.generators import Drawn, Rng

Generator = Callable[[Rng], Drawn]

_ORDINARY: dict[str, Generator] = {
    "ordinary": draw.ordinary,
    "ordinary, 25 % of vendors biased": partial(draw.ordinary, liked=0.25),
    "ordinary, 75 % of vendors biased": partial(draw.ordinary, liked=0.75),
    "ordinary, 100 items": partial(draw.ordinary, n=100),
    "ordinary, 3000 items": partial(draw.ordinary, n=3000),
    "ordinary, 4 judges": partial(draw.ordinary, p=4),
    "ordinary, 20 judges": partial(draw.ordinary, p=20),
    "ordinary, votes": partial(draw.ordinary, kind="votes"),
    "ordinary, five grades": partial(draw.ordinary, kind="five"),
    "ordinary, a fifth missing": partial(draw.ordinary, missing=0.2),
    "ordinary, half as strong": partial(draw.ordinary, strength=0.5),
    "ordinary, quality follows style by .3": partial(draw.ordinary, rho=0.3),
    "ordinary, quality follows style by .6": partial(draw.ordinary, rho=0.6),
    "ordinary, no families": lambda rng: draw.without_families(draw.ordinary(rng)),
    "ordinary, no texts": lambda rng: draw.without_texts(draw.ordinary(rng)),
    "ordinary, neither": lambda rng: draw.without_texts(draw.without_families(draw.ordinary(rng))),
    "vendors without a bias": partial(draw.ordinary, strength=0.0),
}

_COPIES: dict[str, Generator] = {
    f"{k} copies of {p}{more}": partial(draw.copies, p=p, k=k, **options)
    for p, k, more, options in (
        (6, 2, "", {}),
        (10, 2, "", {}),
        (10, 4, "", {}),
        (16, 6, "", {}),
        (30, 12, "", {}),
        (10, 4, ", 100 items", {"n": 100}),
        (10, 3, ", 3000 items", {"n": 3000}),
        (10, 3, ", r .9", {"alike": 0.9}),
        (10, 3, ", ten grades", {"alike": 0.95, "kind": "ten"}),
        (10, 3, ", votes", {"alike": 0.98, "kind": "votes"}),
        (10, 4, ", votes", {"alike": 0.98, "kind": "votes"}),
        (10, 3, ", votes, honest r .8", {"alike": 0.98, "kind": "votes", "honest": 0.8}),
        (10, 3, ", honest r .31", {"honest": 0.31}),
        (10, 5, "", {}),
        (10, 7, "", {}),
    )
}

CHOSEN_ON: dict[str, Generator] = {
    **_ORDINARY,
    **_COPIES,
    "one judge asked twice": draw.twins,
    "six of one judge": partial(draw.twins, k=6),
    "one judge asked twice, votes": partial(draw.twins, kind="votes"),
    "one factor": draw.one_factor,
    "one factor, no texts": lambda rng: draw.without_texts(draw.one_factor(rng)),
    "one factor, votes": partial(draw.one_factor, kind="votes"),
    "weak signal": partial(draw.one_factor, least=0.03, most=0.15, n=300, p=8),
    "item response": draw.item_response,
    "harder items": partial(draw.uneven_noise, heavy=False),
    "heavy tails": partial(draw.uneven_noise, heavy=True),
    "an echo": draw.echo,
    "better judges among poorer ones": draw.better_judges,
    "pairs with a side": draw.pairs,
    "unsure of poor answers": partial(draw.unsure_of_poor, kind="real"),
    "unsure of poor answers, ten grades": partial(draw.unsure_of_poor, kind="ten"),
    "grave mistakes that some notice": draw.noticed,
    "noise": draw.nothing,
    "six of ten reversed": draw.reversed_majority,
    "three judges, forty items": partial(draw.one_factor, n=40, p=3),
    "one vendor without the bias of all others": partial(draw.one_vendor_differs, facts=False),
    "half of the judges sure where they are blind": draw.sure_where_blind,
    "two qualities that judges weigh differently": draw.two_qualities,
}

HELD_OUT: dict[str, Generator] = {
    "prompts of three models that reward lists": draw.prompts_of_models,
    "ceilings": draw.ceilings,
    "topics": draw.topics,
    "colluders": draw.colluders,
    "longer is better": draw.longer_is_better,
    "copies within a bias": draw.copies_within_a_bias,
    "pairs with copies of a judge of sides": draw.copied_pairs,
    "stars with copies of a poor judge": draw.copied_stars,
    "strict and lenient votes": draw.strict_and_lenient,
    "better judges among poorer ones, grades": draw.better_judges_graded,
    "half of the judges blind to length, which is quality": draw.half_blind,
    "one better judge among poorer ones": draw.one_better_judge,
    "better judges whom no other follows": partial(draw.better_judges_unconfirmed, families=False),
    "better judges of one vendor whom no other follows": partial(draw.better_judges_unconfirmed, families=True),
    "a judge of any reliability asked again": draw.uneven_twins,
    "grades, the better judges use more of them": partial(draw.uneven_grades, wide_are_good=True),
    "grades, the poorer judges use more of them": partial(draw.uneven_grades, wide_are_good=False),
    "noise that only takes off": draw.one_sided,
    "one vendor that notices invented facts": partial(draw.one_vendor_differs, facts=True),
    "four or five judges, all but two share a bias": draw.few_unbiased,
    "judges in blocks of the items": draw.blocks,
    "prompts that some judges take for hard": draw.hard_prompts,
    "pass or fail that is easy": draw.easy_votes,
    "pass or fail, all but two judges pass the same bad answers": draw.shared_false_passes,
    "pairs, most judges prefer the longer answer, no texts": draw.pairs_by_length,
}

UNIDENTIFIABLE = frozenset(
    {
        "7 copies of 10",
        "six of one judge",
        "grave mistakes that some notice",
        "one vendor without the bias of all others",
        "half of the judges blind to length, which is quality",
        "one better judge among poorer ones",
        "better judges whom no other follows",
        "better judges of one vendor whom no other follows",
        "four or five judges, all but two share a bias",
        "pass or fail, all but two judges pass the same bad answers",
        "pairs, most judges prefer the longer answer, no texts",
    }
)
"""Kinds in which most judges share an error, so scores cannot tell which judges are right."""
