"""Computes the probability of each legal answer from next-token probabilities.

An answer may be spelled in several ways (with and without a space before it) and may take several tokens. The token
sequences of all spellings form a trie. The model is asked for the next token's probabilities once at each inner node of
the trie that is probable enough, starting at the root. A number that another digit may extend (1 to 10) counts as an
answer only with the probability that no digit follows.

Belongs here: the trie and the probabilities that it yields. Does not belong here: tokenizers and models (``engines``).
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
    """The token sequences in which a tokenizer can write the legal answers.

    Attributes
    ----------
    writings : mapping answer -> tuple of token sequences
        Every spelling of each answer, as token ids.
    digits : frozenset of int
        Token ids of the digits, which would extend a number.
    """

    writings: Mapping[str, tuple[Prefix, ...]]
    digits: frozenset[int] = frozenset()

    @cached_property
    def children(self) -> dict[Prefix, set[int]]:
        """The tokens that may follow at each inner node of the trie; a node is the tokens that lead to it."""
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
        """Token ids whose probability after ``prefix`` is needed, sorted."""
        extensions = self.digits if prefix in self._complete else frozenset[int]()
        return tuple(sorted(self.children[prefix] | extensions))

    def next_nodes(self, known: LogProbs, least: float = 0.0) -> list[Prefix]:
        """The inner nodes to ask the model about next: those below known nodes, of probability above ``least``."""
        if () not in known:
            return [()]
        ready = [p for p in self.children if p and p not in known and p[:-1] in known]
        return [p for p in ready if math.exp(self._log_reach(p, known)) > least]

    def probabilities(self, known: LogProbs) -> dict[str, float]:
        """Probability of each answer; their sum, the valid mass, is at most one."""
        return {
            answer: sum(self._probability(sequence, known) for sequence in sequences)
            for answer, sequences in self.writings.items()
        }

    def _probability(self, sequence: Prefix, known: LogProbs) -> float:
        """Probability that the model writes this sequence and no further digit."""
        if any(sequence[:depth] not in known for depth in range(len(sequence))):
            return 0.0  # the sequence lies below a node that was too improbable to ask about
        reached = math.exp(self._log_reach(sequence, known))
        if sequence not in self.children or sequence not in known:
            return reached
        extended = sum(math.exp(known[sequence].get(token, -math.inf)) for token in self.wanted(sequence))
        return reached * max(0.0, 1.0 - extended)

    @staticmethod
    def _log_reach(sequence: Prefix, known: LogProbs) -> float:
        return sum(known[sequence[:d]].get(token, -math.inf) for d, token in enumerate(sequence))


def ballot(encode: Callable[[str], list[int]], tail: str, answers: Iterable[str]) -> Ballot:
    """Find the token sequences in which a tokenizer writes each answer after ``tail``.

    Parameters
    ----------
    encode : callable
        From a text to its token ids.
    tail : str
        The text with which every prompt ends, without white space at its end.
    answers : iterable of str
        Legal answers as text.
    """
    start = encode(tail)

    def tokens(text: str) -> Prefix | None:
        whole = encode(tail + text)
        return tuple(whole[len(start) :]) if whole[: len(start)] == start and len(whole) > len(start) else None

    writings: dict[str, tuple[Prefix, ...]] = {}
    for answer in answers:
        forms = dict.fromkeys((answer, answer.capitalize()))
        sequences = (tokens(space + form) for form in forms for space in (" ", ""))
        writings[answer] = tuple(dict.fromkeys(sequence for sequence in sequences if sequence))
    digits: set[int] = set()
    for lead in (" 1", "1"):
        begun = tokens(lead)
        for digit in "0123456789":
            longer = tokens(lead + digit)
            if begun and longer and longer[: len(begun)] == begun and len(longer) == len(begun) + 1:
                digits.add(longer[-1])
    return Ballot(writings, frozenset(digits))


@dataclass(frozen=True)
class AnswerDistribution:
    """The probabilities of the legal answers and what they say about the score.

    Attributes
    ----------
    probabilities : mapping answer -> float
        Probabilities as the model gave them; they need not add up to one.
    valid_mass : float
        Sum of the probabilities, at most one.
    expected : float
        Mean score over the legal answers; NaN if none of them has any probability.
    mode : float
        Score of the most probable answer.
    """

    probabilities: Mapping[str, float]
    valid_mass: float
    expected: float
    mode: float


def summarise(probabilities: Mapping[str, float], scores: Mapping[str, float]) -> AnswerDistribution:
    """Compute expected score, mode and valid mass from the probability of each answer and the score it stands for."""
    mass = sum(probabilities.values())
    expected = sum(p * scores[a] for a, p in probabilities.items()) / mass if mass > 0 else math.nan
    mode = scores[max(probabilities, key=lambda a: (probabilities[a], -scores[a]))]
    return AnswerDistribution(probabilities, min(mass, 1.0), expected, mode)
