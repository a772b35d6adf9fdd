"""Probabilities of the legal answers, from a few next-token probabilities.

An answer may be written in several ways (with and without a space before it) and take several tokens. The writings of
all answers make a trie; each of its inner nodes is one look at the next token's probabilities, the root the first. A
number that may go on (1, then 10) is an answer only as far as no digit follows.

Belongs here: the trie and what follows from its probabilities. Does not: tokenizers, models (``engines``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

Prefix = tuple[int, ...]
LogProbs = Mapping[Prefix, Mapping[int, float]]


@dataclass(frozen=True)
class Ballot:
    """How a tokenizer writes the legal answers.

    Attributes
    ----------
    writings : mapping answer -> tuple of token sequences
    digits : frozenset of int
        Tokens that would carry a number on.
    """

    writings: Mapping[str, tuple[Prefix, ...]]
    digits: frozenset[int] = frozenset()

    @cached_property
    def children(self) -> dict[Prefix, set[int]]:
        """Tokens by which each inner node goes on."""
        nodes: dict[Prefix, set[int]] = {}
        for sequences in self.writings.values():
            for sequence in sequences:
                for depth, token in enumerate(sequence):
                    nodes.setdefault(sequence[:depth], set()).add(token)
        return nodes

    @cached_property
    def _complete(self) -> set[Prefix]:
        return {sequence for sequences in self.writings.values() for sequence in sequences}

    def wanted(self, prefix: Prefix) -> tuple[int, ...]:
        """Tokens whose probability after ``prefix`` is needed."""
        more = self.digits if prefix in self._complete else frozenset[int]()
        return tuple(sorted(self.children[prefix] | more))

    def next_looks(self, known: LogProbs, least: float = 0.0) -> list[Prefix]:
        """Inner nodes one step below the known ones whose probability is above ``least``."""
        if () not in known:
            return [()]
        ready = [p for p in self.children if p and p not in known and p[:-1] in known]
        return [p for p in ready if math.exp(self._log_reach(p, known)) > least]

    def probabilities(self, known: LogProbs) -> dict[str, float]:
        """Probability of each answer; they add to the valid mass, one or less."""
        return {
            answer: sum(self._of(sequence, known) for sequence in sequences)
            for answer, sequences in self.writings.items()
        }

    def _of(self, sequence: Prefix, known: LogProbs) -> float:
        if any(sequence[:depth] not in known for depth in range(len(sequence))):
            return 0.0  # below a node too improbable to look at
        reached = math.exp(self._log_reach(sequence, known))
        if sequence not in self.children or sequence not in known:
            return reached
        goes_on = sum(math.exp(known[sequence].get(token, -math.inf)) for token in self.wanted(sequence))
        return reached * max(0.0, 1.0 - goes_on)

    @staticmethod
    def _log_reach(sequence: Prefix, known: LogProbs) -> float:
        return sum(known[sequence[:d]].get(token, -math.inf) for d, token in enumerate(sequence))


def ballot(encode: Callable[[str], list[int]], tail: str, answers: Iterable[str]) -> Ballot:
    """How a tokenizer writes the answers after ``tail``, the end of every prompt.

    Parameters
    ----------
    encode : callable
        Text to token ids.
    tail : str
        Without white space at its end.
    answers : iterable of str
    """
    start = encode(tail)

    def tokens(text: str) -> Prefix | None:
        whole = encode(tail + text)
        return tuple(whole[len(start) :]) if whole[: len(start)] == start and len(whole) > len(start) else None

    writings: dict[str, tuple[Prefix, ...]] = {}
    for answer in answers:
        forms = dict.fromkeys((answer, answer.capitalize()))
        found = (tokens(space + form) for form in forms for space in (" ", ""))
        writings[answer] = tuple(dict.fromkeys(sequence for sequence in found if sequence))
    digits: set[int] = set()
    for lead in (" 1", "1"):
        begun = tokens(lead)
        for digit in "0123456789":
            longer = tokens(lead + digit)
            if begun and longer and longer[: len(begun)] == begun and len(longer) == len(begun) + 1:
                digits.add(longer[-1])
    return Ballot(writings, frozenset(digits))


@dataclass(frozen=True)
class Reading:
    """What the probabilities of the answers say.

    Attributes
    ----------
    probabilities : mapping answer -> float
        As the model gave them, not made to add to one.
    valid_mass : float
    expected : float
        Mean score over the legal answers; nan where none has any probability.
    mode : float
        Score of the likeliest answer.
    """

    probabilities: Mapping[str, float]
    valid_mass: float
    expected: float
    mode: float


def read(probabilities: Mapping[str, float], scores: Mapping[str, float]) -> Reading:
    """Expected score, mode and valid mass of a distribution over answers."""
    mass = sum(probabilities.values())
    expected = sum(p * scores[a] for a, p in probabilities.items()) / mass if mass > 0 else math.nan
    mode = scores[max(probabilities, key=lambda a: (probabilities[a], -scores[a]))]
    return Reading(probabilities, min(mass, 1.0), expected, mode)
