"""Items of the demo: simulated answers to questions about countries, with known quality and style confounders.

A simulated answer has a random share of correct facts. Four style confounders (padding, list formatting, false
citations, emoji) are independent of quality. No constant was tuned to the results of an aggregator.
"""

import numpy as np

from warehouse.items import ItemRecord

FACTS: dict[str, tuple[str, str, str, str]] = {
    "Argentina": ("Buenos Aires", "peso", "Spanish", "South America"),
    "Austria": ("Vienna", "euro", "German", "Europe"),
    "Brazil": ("Brasília", "real", "Portuguese", "South America"),
    "Bulgaria": ("Sofia", "euro", "Bulgarian", "Europe"),
    "Cambodia": ("Phnom Penh", "riel", "Khmer", "Asia"),
    "Chile": ("Santiago", "peso", "Spanish", "South America"),
    "Czechia": ("Prague", "koruna", "Czech", "Europe"),
    "Denmark": ("Copenhagen", "krone", "Danish", "Europe"),
    "Egypt": ("Cairo", "pound", "Arabic", "Africa"),
    "Ethiopia": ("Addis Ababa", "birr", "Amharic", "Africa"),
    "Georgia": ("Tbilisi", "lari", "Georgian", "Asia"),
    "Ghana": ("Accra", "cedi", "English", "Africa"),
    "Greece": ("Athens", "euro", "Greek", "Europe"),
    "Hungary": ("Budapest", "forint", "Hungarian", "Europe"),
    "Iceland": ("Reykjavik", "krona", "Icelandic", "Europe"),
    "Japan": ("Tokyo", "yen", "Japanese", "Asia"),
    "Kenya": ("Nairobi", "shilling", "Swahili", "Africa"),
    "Laos": ("Vientiane", "kip", "Lao", "Asia"),
    "Mexico": ("Mexico City", "peso", "Spanish", "North America"),
    "Mongolia": ("Ulaanbaatar", "tugrik", "Mongolian", "Asia"),
    "Morocco": ("Rabat", "dirham", "Arabic", "Africa"),
    "Nigeria": ("Abuja", "naira", "English", "Africa"),
    "Norway": ("Oslo", "krone", "Norwegian", "Europe"),
    "Peru": ("Lima", "sol", "Spanish", "South America"),
    "Poland": ("Warsaw", "zloty", "Polish", "Europe"),
    "Portugal": ("Lisbon", "euro", "Portuguese", "Europe"),
    "Sweden": ("Stockholm", "krona", "Swedish", "Europe"),
    "Thailand": ("Bangkok", "baht", "Thai", "Asia"),
    "Turkey": ("Ankara", "lira", "Turkish", "Asia"),
    "Vietnam": ("Hanoi", "dong", "Vietnamese", "Asia"),
}
ASPECTS = ("capital", "currency", "official language", "continent")
ANSWERS_A_COUNTRY = 12

_SENTENCES = (
    "The capital of {country} is {value}.",
    "The currency of {country} is the {value}.",
    "The official language is {value}.",
    "The country lies on the continent of {value}.",
)
_PADDING = (
    "This is a question that many people ask, and it deserves a careful answer.",
    "It is worth keeping in mind that every country has a rich and varied history.",
    "There are of course many other interesting things that could be said here.",
    "Travellers often find that learning such facts makes a journey more rewarding.",
    "As with any topic of this kind, the details reward a closer look.",
    "In short, it is a fascinating place with a great deal to discover.",
)
_CITATIONS = ("[1]", "(World Almanac, 2019)", "[2]", "(Atlas of Nations, 2021)")
_EMOJI = ("🌍", "✨", "🎉", "⭐")


def generate(countries: int = 30, seed: int = 20260, *, complete: bool = False) -> list[ItemRecord]:
    """Generate twelve answers per country, with gold labels, and with the style of each answer as metadata.

    The gold label is ten times the F1 score of the facts: precision is the share of stated facts that are right, and
    recall is the share of requested facts that are stated and right. If ``complete`` is true, each answer states all
    four facts, and its length does not depend on its quality.
    """
    rng = np.random.default_rng(seed)
    lowest = 1.0 if complete else 0.3
    return [_answer(rng, country, k, lowest) for country in sorted(FACTS)[:countries] for k in range(ANSWERS_A_COUNTRY)]


def _answer(rng: np.random.Generator, country: str, number: int, least_effort: float) -> ItemRecord:
    knowledge, effort = rng.uniform(0.2, 1.0), rng.uniform(least_effort, 1.0)
    stated = rng.random(len(ASPECTS)) < effort
    right = rng.random(len(ASPECTS)) < knowledge
    if not stated.any():
        stated[rng.integers(len(ASPECTS))] = True
    facts = [
        sentence.format(country=country, value=FACTS[country][k] if right[k] else _wrong(rng, country, k))
        for k, sentence in enumerate(_SENTENCES)
        if stated[k]
    ]
    style = {
        "padding": int(rng.integers(0, 6)),
        "list": bool(rng.random() < 0.5),
        "citations": int(rng.integers(0, 4)),
        "emoji": int(rng.integers(0, 4)),
    }
    hits = int((stated & right).sum())
    precision, recall = hits / int(stated.sum()), hits / len(ASPECTS)
    gold = 0.0 if hits == 0 else 10 * 2 * precision * recall / (precision + recall)
    return ItemRecord(
        item_id=f"{country.lower()}-{number:02d}",
        prompt=f"What are the capital, the currency, the official language and the continent of {country}?",
        response=_styled(rng, facts, style),
        reference=" ".join(s.format(country=country, value=v) for s, v in zip(_SENTENCES, FACTS[country], strict=True)),
        gold=round(gold, 6),
        split_unit=country,
        metadata={"right": hits, "stated": int(stated.sum()), **style},
    )


def _wrong(rng: np.random.Generator, country: str, aspect: int) -> str:
    others = sorted({facts[aspect] for facts in FACTS.values()} - {FACTS[country][aspect]})
    return others[int(rng.integers(len(others)))]


def _styled(rng: np.random.Generator, facts: list[str], style: dict[str, int | bool]) -> str:
    facts = list(facts)
    for k in range(int(style["citations"])):
        position = k % len(facts)
        facts[position] = f"{facts[position][:-1]} {_CITATIONS[k]}."
    padding = [str(s) for s in rng.permutation(np.array(_PADDING))[: int(style["padding"])]]
    opening, closing = padding[::2], padding[1::2]
    body = "\n".join(f"- {fact}" for fact in facts) if style["list"] else " ".join(facts)
    parts = [" ".join(opening), body, " ".join(closing), " ".join(_EMOJI[: int(style["emoji"])])]
    separator = "\n" if style["list"] else " "
    return separator.join(part for part in parts if part)
