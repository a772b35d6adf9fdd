"""A second generated corpus: answers to "how do I ...", with another kind of truth and other styles than the demo's.

The demo's truth is a table of facts; here it is a procedure: six steps in an order, each with a number. An answer
states some of the steps, gets some numbers wrong and puts some neighbours in the wrong order. Styles are drawn
independently: hedging, a compliment, headings, exclamation marks, a summary that repeats steps. It was written before
any estimator that reads probes existed, so that nothing could be tuned on it.

Belongs here: the items. Belongs elsewhere: what is done to them (kinds of probes), who judges them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from warehouse.items import ItemRecord

GOALS = (
    "bake a dark rye loaf",
    "brew green tea",
    "build a raised bed",
    "change a bicycle tyre",
    "clean a coffee machine",
    "dye a cotton shirt",
    "fix a dripping tap",
    "frame a photograph",
    "grow tomatoes",
    "hang a door",
    "ice a birthday cake",
    "insulate a loft",
    "knit a scarf",
    "lay a brick path",
    "make fresh pasta",
    "paint a wall",
    "pickle cucumbers",
    "plant a hedge",
    "polish leather boots",
    "prune an apple tree",
    "sharpen a kitchen knife",
    "solder a wire",
    "tile a bathroom floor",
    "wax a wooden table",
)

_STEPS = (
    ("Clear a space of {n} centimetres on every side.", 30, 120),
    ("Measure {n} grams of the material.", 50, 900),
    ("Heat it to {n} degrees.", 40, 220),
    ("Wait {n} minutes.", 5, 90),
    ("Mix it with {n} millilitres of water.", 50, 750),
    ("Press it down {n} times.", 3, 30),
    ("Cut it into {n} pieces.", 2, 24),
    ("Turn it over after {n} seconds.", 10, 180),
    ("Tighten it by {n} quarter turns.", 1, 12),
    ("Leave it to rest for {n} hours.", 1, 48),
    ("Rub it with a cloth {n} times.", 5, 40),
    ("Check it again after {n} days.", 1, 14),
)
STEPS_A_PROCEDURE = 6

_HEDGES = ("I think that", "It may be that", "Perhaps it is best if you do this:", "If I remember rightly:")
_COMPLIMENT = "What a wonderful question, and how good of you to ask!"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class ProceduresConfig:
    """Size and seed of the corpus.

    Attributes
    ----------
    goals, answers : int
        Questions, and answers to each.
    seed : int
    """

    goals: int = len(GOALS)
    answers: int = 15
    seed: int = 71_077


def generate(config: ProceduresConfig) -> list[ItemRecord]:
    """Items with texts, gold and the planted style as metadata.

    Gold is ten times the share of the six steps that are stated with the right number, times one half plus half the
    share of stated neighbours that stand in the right order.
    """
    rng = np.random.default_rng(config.seed)
    procedures = {goal: _procedure(rng) for goal in GOALS[: config.goals]}
    return [_answer(rng, goal, steps, number) for goal, steps in procedures.items() for number in range(config.answers)]


def _procedure(rng: np.random.Generator) -> list[str]:
    chosen = rng.permutation(len(_STEPS))[:STEPS_A_PROCEDURE]
    return [_STEPS[k][0].format(n=int(rng.integers(_STEPS[k][1], _STEPS[k][2]))) for k in chosen]


def _answer(rng: np.random.Generator, goal: str, steps: list[str], number: int) -> ItemRecord:
    knowledge, effort, care = rng.uniform(0.2, 1.0), rng.uniform(0.3, 1.0), rng.uniform(0.3, 1.0)
    stated = np.flatnonzero(rng.random(len(steps)) < effort)
    stated = stated if len(stated) else rng.integers(0, len(steps), 1)
    right = rng.random(len(stated)) < knowledge
    texts = [steps[k] if ok else _with_another_number(rng, steps[k]) for k, ok in zip(stated, right, strict=True)]
    order = list(range(len(stated)))
    for k in range(len(order) - 1):
        if rng.random() > care:
            order[k], order[k + 1] = order[k + 1], order[k]
    in_order = float(np.mean(np.diff(order) > 0)) if len(order) > 1 else 1.0
    gold = 10 * float(right.sum()) / len(steps) * (0.5 + 0.5 * in_order)
    style = {
        "hedges": int(rng.integers(0, 4)),
        "compliment": bool(rng.random() < 0.5),
        "headings": bool(rng.random() < 0.5),
        "exclamations": int(rng.integers(0, 4)),
        "summary": int(rng.integers(0, 3)),
    }
    return ItemRecord(
        item_id=f"{goal.replace(' ', '-')}-{number:02d}",
        prompt=f"How do I {goal}? Name the steps in order, with amounts and times.",
        response=_styled(rng, [texts[k] for k in order], style),
        reference=" ".join(steps),
        gold=round(gold, 6),
        split_unit=goal,
        metadata={"right": int(right.sum()), "stated": len(stated), "in_order": round(in_order, 6), **style},
    )


def _with_another_number(rng: np.random.Generator, step: str) -> str:
    (number,) = _NUMBER.findall(step)
    factor = float(rng.choice([0.25, 0.5, 2.0, 4.0]))
    return _NUMBER.sub(str(max(1, round(int(number) * factor))), step)


def _styled(rng: np.random.Generator, texts: list[str], style: dict[str, int | bool]) -> str:
    lines = list(texts)
    for k in range(min(int(style["hedges"]), len(lines))):
        hedge = _HEDGES[int(rng.integers(len(_HEDGES)))]
        lines[k] = f"{hedge} {lines[k][0].lower()}{lines[k][1:]}"
    for k in range(min(int(style["exclamations"]), len(lines))):
        lines[-1 - k] = f"{lines[-1 - k][:-1]}!"
    parts = [_COMPLIMENT] if style["compliment"] else []
    parts += [f"**Step {k + 1}**\n{line}" for k, line in enumerate(lines)] if style["headings"] else lines
    if style["summary"]:
        parts.append("In short: " + " ".join(texts[: int(style["summary"])]))
    return ("\n" if style["headings"] else " ").join(parts)
