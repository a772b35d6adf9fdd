"""Write the tables of the quickstart example; ``python generate.py`` writes the same files on every machine.

Two systems answer 50 questions in two runs each. An answer is better if more of its five statements are correct; its
length does not matter. Eight judges of four vendors score each answer from 0 to 10. The judges see quality with noise,
and the judges of cedar and delta also reward length. ``gold`` is the true quality, which no fit uses.
"""

import csv
import random
from pathlib import Path

LENGTH_BIAS = {"amber": 0.0, "birch": 0.2, "cedar": 1.0, "delta": 0.8}
"""Points that the judges of each vendor add per standard deviation of length."""

SKILL = {"v1": 0.45, "v2": 0.65}
"""Probability, by system, that a statement about a question of average difficulty is correct."""

TOPICS = (
    "sourdough",
    "chess openings",
    "compost",
    "tides",
    "bicycle gears",
    "glaciers",
    "vaccines",
    "violins",
    "coral",
    "jet lag",
)
ASPECTS = ("how it works", "its history", "common mistakes", "what it costs", "where to begin")
FILLER = (
    "There is a lot more that could be said about this.",
    "Many people have asked the same question before.",
    "It depends, of course, on what you would like to achieve.",
    "Let me put this in a wider context for you.",
    "I hope that this overview is helpful to you.",
)


def answer(rng: random.Random, topic: str, right: int, fillers: int) -> str:
    """Return an answer with five statements, ``right`` of them correct, and ``fillers`` sentences without content."""
    sentences = [f"Statement {k + 1} about {topic} is {'correct' if k < right else 'wrong'}." for k in range(5)]
    rng.shuffle(sentences)
    return " ".join(sentences + [rng.choice(FILLER) for _ in range(fillers)])


def main() -> None:
    """Simulate the answers, their scores and labels, and write four tables to the folder of this script."""
    rng = random.Random(7)
    judges = [(f"{vendor}-{size}", vendor) for vendor in LENGTH_BIAS for size in ("small", "large")]
    items, scores = [], []
    for question, (topic, aspect) in enumerate((topic, aspect) for topic in TOPICS for aspect in ASPECTS):
        difficulty = rng.gauss(0, 0.15)
        for system, skill in SKILL.items():
            for run in (1, 2):
                right = sum(rng.random() < skill - difficulty for _ in range(5))
                fillers = rng.randrange(0, 13)
                item = f"q{question:02}-{system}-{run}"
                text = answer(rng, topic, right, fillers)
                items.append((item, f"Explain {topic}: {aspect}.", text, f"q{question:02}", system, run, right))
                for judge, vendor in judges:
                    seen = 2.2 + 1.1 * right + LENGTH_BIAS[vendor] * (fillers - 6) / 3.74 + rng.gauss(0, 1.3)
                    scores.append((item, judge, min(10, max(0, round(seen)))))
    drawn = {f"q{question:02}" for question in rng.sample(range(50), 12)}
    labels = [(row[0], int(row[-1] >= 3), "random") for row in items if row[3] in drawn]
    for name, head, rows in (
        ("scores.csv", ("item_id", "judge", "score"), scores),
        ("items.csv", ("item_id", "prompt", "response", "split_unit", "system", "run", "gold"), items),
        ("judges.csv", ("judge", "family"), judges),
        ("labels.csv", ("item_id", "label", "drawn"), labels),
    ):
        with (Path(__file__).parent / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows])


if __name__ == "__main__":
    main()
