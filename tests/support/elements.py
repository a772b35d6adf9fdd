"""A third generated corpus: answers about chemical elements, with graded truth and other styles than the first two.

The demo's facts are right or wrong, and the steps of ``procedures`` stand in an order. Here a number may be nearly
right, which counts half; some facts matter more than others; and an answer may take back what it has said, which costs
half of that fact. Styles are drawn independently: anecdotes, ponderous openings, the question said again, a question to
the reader, lines of a table in place of sentences. It was written, and declared (``declared_probes``), before anything
had been scored on it.

Belongs here: the items. Belongs elsewhere: what is done to them (kinds of probes), who judges them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warehouse.items import ItemRecord

ELEMENTS: dict[str, tuple[str, int, str, int, int, str]] = {
    "aluminium": ("Al", 13, "Ørsted", 1825, 660, "window frames"),
    "barium": ("Ba", 56, "Davy", 1808, 727, "green fireworks"),
    "beryllium": ("Be", 4, "Vauquelin", 1798, 1287, "telescope mirrors"),
    "boron": ("B", 5, "Thénard", 1808, 2076, "heat-proof glass"),
    "cadmium": ("Cd", 48, "Stromeyer", 1817, 321, "rechargeable cells"),
    "calcium": ("Ca", 20, "Davy", 1808, 842, "cement"),
    "cerium": ("Ce", 58, "Berzelius", 1803, 795, "lighter flints"),
    "chromium": ("Cr", 24, "Vauquelin", 1797, 1907, "plated taps"),
    "cobalt": ("Co", 27, "Brandt", 1735, 1495, "blue glass"),
    "gallium": ("Ga", 31, "Boisbaudran", 1875, 30, "light diodes"),
    "germanium": ("Ge", 32, "Winkler", 1886, 938, "infrared lenses"),
    "indium": ("In", 49, "Reich", 1863, 157, "touch screens"),
    "iridium": ("Ir", 77, "Tennant", 1803, 2446, "spark plugs"),
    "lithium": ("Li", 3, "Arfwedson", 1817, 181, "phone batteries"),
    "magnesium": ("Mg", 12, "Black", 1755, 650, "light alloys"),
    "manganese": ("Mn", 25, "Gahn", 1774, 1246, "railway steel"),
    "molybdenum": ("Mo", 42, "Hjelm", 1781, 2623, "engine oils"),
    "nickel": ("Ni", 28, "Cronstedt", 1751, 1455, "coins"),
    "palladium": ("Pd", 46, "Wollaston", 1803, 1555, "exhaust cleaners"),
    "selenium": ("Se", 34, "Berzelius", 1817, 221, "photocells"),
    "silicon": ("Si", 14, "Berzelius", 1824, 1414, "computer chips"),
    "sodium": ("Na", 11, "Davy", 1807, 98, "street lamps"),
    "tantalum": ("Ta", 73, "Ekeberg", 1802, 3017, "small capacitors"),
    "tellurium": ("Te", 52, "Reichenstein", 1782, 450, "solar panels"),
    "titanium": ("Ti", 22, "Gregor", 1791, 1668, "aircraft parts"),
    "tungsten": ("W", 74, "Elhuyar", 1783, 3422, "lamp filaments"),
    "uranium": ("U", 92, "Klaproth", 1789, 1132, "reactor fuel"),
    "vanadium": ("V", 23, "Sefström", 1830, 1910, "spring steel"),
    "yttrium": ("Y", 39, "Gadolin", 1794, 1522, "red phosphors"),
    "zirconium": ("Zr", 40, "Klaproth", 1789, 1855, "fuel cladding"),
}
"""Symbol, atomic number, discoverer, year, melting point in degrees Celsius, and a use."""

WORTH = (1.0, 2.0, 2.0, 2.0, 2.0, 1.0)
"""What each fact counts."""

NEARLY, TAKEN_BACK = 0.5, 0.5
"""What a number that is nearly right counts, and a fact that is taken back, of what it would count otherwise."""

_SENTENCES = (
    "Its symbol is {value}.",
    "Its atomic number is {value}.",
    "The discovery is credited to {value}.",
    "It was found in the year {value}.",
    "It melts at {value} degrees Celsius.",
    "People use it for {value}.",
)
_LINES = (
    "Symbol: {value}",
    "Number: {value}",
    "Found by: {value}",
    "Year: {value}",
    "Melts at: {value}",
    "Used for: {value}",
)
_BACK = "On second thoughts, that may have been {value} instead."
_ANECDOTES = (
    "My old teacher kept a lump of it on the window sill and dusted it every spring.",
    "A museum near the harbour shows it in a glass case between two stuffed owls.",
    "There is a song about the whole table that students hum before their examinations.",
    "A friend once dropped a sample under the sofa and found it years later.",
)
_PONDEROUS = (
    "Notwithstanding the considerable multiplicity of perspectives, the following characterisation is representative.",
    "Comprehensive consideration of the aforementioned substance necessitates terminological circumspection.",
)
_ASKS = "Is there anything else about it that you would like me to look up for you?"


@dataclass(frozen=True)
class ElementsConfig:
    """Size and seed of the corpus: answers to each question, and the generator's seed."""

    answers: int = 12
    seed: int = 118_092


def generate(config: ElementsConfig) -> list[ItemRecord]:
    """Items with texts, gold, and the planted style as metadata.

    Gold is ten times the worth of what is stated, as far as it is right, over the worth of all six facts.
    """
    rng = np.random.default_rng(config.seed)
    return [_answer(rng, name, number) for name in sorted(ELEMENTS) for number in range(config.answers)]


def _answer(rng: np.random.Generator, name: str, number: int) -> ItemRecord:
    knowledge, effort, doubt = rng.uniform(0.1, 1.0), rng.uniform(0.35, 1.0), rng.uniform(0.0, 0.3)
    stated = rng.random(len(WORTH)) < effort
    stated[rng.integers(len(WORTH))] = True
    style = {
        "anecdotes": int(rng.integers(0, 4)),
        "ponderous": int(rng.integers(0, 3)),
        "echo": bool(rng.random() < 0.5),
        "asks": bool(rng.random() < 0.5),
        "table": bool(rng.random() < 0.4),
    }
    total, lines = 0.0, list[str]()
    for k in np.flatnonzero(stated).tolist():
        value, credit = _said(rng, name, k, knowledge)
        lines.append((_LINES if style["table"] else _SENTENCES)[k].format(value=value))
        if rng.random() < doubt:
            lines.append(_BACK.format(value=_wrong(rng, name, k)))
            credit *= TAKEN_BACK
        total += credit * WORTH[k]
    sentences = zip(_SENTENCES, ELEMENTS[name], strict=True)
    return ItemRecord(
        item_id=f"{name}-{number:02d}",
        prompt=f"What are the symbol, number, discoverer, year of discovery, melting point and a use of {name}?",
        response=_styled(rng, name, lines, style),
        reference=" ".join(sentence.format(value=value) for sentence, value in sentences),
        gold=round(10 * total / sum(WORTH), 6),
        split_unit=name,
        metadata={"stated": int(stated.sum()), "credit": round(total, 6), **style},
    )


def _said(rng: np.random.Generator, name: str, k: int, knowledge: float) -> tuple[str, float]:
    """What an answer says of a fact, and what that counts, 0 to 1: right, nearly right (numbers alone), or wrong."""
    truth = ELEMENTS[name][k]
    if rng.random() < knowledge:
        return str(truth), 1.0
    if isinstance(truth, int) and rng.random() < 0.4:
        off = max(1, round(truth * float(rng.uniform(0.01, 0.03)))) if k != 3 else int(rng.integers(1, 9))
        return str(truth + off), NEARLY
    return _wrong(rng, name, k), 0.0


def _wrong(rng: np.random.Generator, name: str, k: int) -> str:
    """The same fact of another element, which differs, and of a number by a tenth or, of a year, by a score or more."""
    truth = ELEMENTS[name][k]
    others = sorted({facts[k] for facts in ELEMENTS.values()} - {truth}, key=str)
    if isinstance(truth, int):
        least = 20 if k == 3 else max(2.0, 0.1 * truth)
        others = [other for other in others if isinstance(other, int) and abs(other - truth) >= least]
    return str(others[int(rng.integers(len(others)))])


def _styled(rng: np.random.Generator, name: str, lines: list[str], style: dict[str, int | bool]) -> str:
    told = [str(line) for line in rng.permutation(np.array(_ANECDOTES))[: int(style["anecdotes"])]]
    opening = [*_PONDEROUS[: int(style["ponderous"])], *told[:1]]
    if style["echo"]:
        opening.insert(0, f"You would like to know what there is to be said about {name}.")
    body = ("\n" if style["table"] else " ").join(lines)
    closing = [*told[1:], *([_ASKS] if style["asks"] else [])]
    return ("\n" if style["table"] else " ").join(part for part in (" ".join(opening), body, " ".join(closing)) if part)
