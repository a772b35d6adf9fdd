"""Probabilities of the allowed answers, computed from the probabilities of next tokens.

An answer may have several spellings (with and without a space before it), each of several tokens. The token
sequences of all spellings form a trie. Starting at the root, the model computes the next token's probabilities once at
each inner node that can change the score. If another digit may follow a number (1 and 10), the number's probability
is multiplied by the probability that no digit follows.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

Prefix = tuple[int, ...]

EXACT_TO = 1e-4
"""Maximum error of an expected score because of omitted answers, in units of the scale."""


@dataclass(frozen=True)
class Ballot:
    """Token sequences of the allowed answers for one tokenizer.

    Attributes
    ----------
    writings : mapping answer -> tuple of token sequences
        Token ids of each spelling of each answer.
    digits : frozenset of int
        Token ids of the digits; a number followed by another digit is another number.
    """

    writings: Mapping[str, tuple[Prefix, ...]]
    digits: frozenset[int] = frozenset()

    @cached_property
    def children(self) -> dict[Prefix, set[int]]:
        """Tokens that may follow each inner node of the trie; a node is a sequence of tokens."""
        nodes: dict[Prefix, set[int]] = {}
        for sequence in self.complete:
            for depth, token in enumerate(sequence):
                nodes.setdefault(sequence[:depth], set()).add(token)
        return nodes

    @cached_property
    def complete(self) -> frozenset[Prefix]:
        """Token sequences of all complete answers."""
        return frozenset(sequence for sequences in self.writings.values() for sequence in sequences)

    @cached_property
    def wanted(self) -> dict[Prefix, tuple[int, ...]]:
        """Sorted ids of the tokens whose probabilities are needed at each inner node of the trie."""
        return {
            node: tuple(sorted(tokens | (self.digits if node in self.complete else frozenset[int]())))
            for node, tokens in self.children.items()
        }


class Unfolding:
    """Probabilities of the answers to one prompt, updated each time the model evaluates a node of the token trie.

    Notes
    -----
    Nodes may be omitted if this changes the expected score by at most a tolerance t. Let w be the width of the scale.
    Let K be the total probability of the evaluated answers, and E their mean score. Let R be the probability of the
    omitted nodes. Let u <= R be the total probability of the allowed answers at or below these nodes, and m their mean
    score. The full expected score is (K E + u m) / (K + u). It differs from E by u |m - E| / (K + u) <= w R / K. A
    score requires K >= v (``min_valid_mass``), so nodes may be omitted while R <= v t / w. The most probable answer
    does not change: for whole numbers, its probability is at least K / (w + 1), which is far more than R.
    """

    def __init__(self, ballot: Ballot) -> None:
        self._ballot = ballot
        self._waiting: dict[Prefix, float] = {(): 1.0}
        self._mass: dict[Prefix, float] = {}

    def next_nodes(self, negligible: float = 0.0) -> list[Prefix]:
        """Return the nodes that the model should evaluate next, or an empty list if the remaining nodes are negligible.

        ``negligible`` is the maximum total probability of the omitted nodes (v t / w in the notes of the class).
        """
        nodes = sorted(self._waiting, key=self._waiting.__getitem__)
        omitted = accumulate(self._waiting[node] for node in nodes)
        return [node for node, total in zip(nodes, omitted, strict=True) if total > negligible]

    def add(self, node: Prefix, log_probabilities: Mapping[int, float]) -> None:
        """Add the log probabilities that the model returned for the wanted tokens after a node."""
        reached = self._waiting.pop(node)
        following = {token: math.exp(log_probabilities[token]) for token in self._ballot.wanted[node]}
        for token in self._ballot.children[node]:
            child = (*node, token)
            if child in self._ballot.children:
                self._waiting[child] = reached * following[token]
            else:
                self._mass[child] = reached * following[token]
        if node in self._ballot.complete:
            self._mass[node] = reached * max(0.0, 1.0 - sum(following.values()))

    def probabilities(self) -> dict[str, float]:
        """Return the probability of each allowed answer, computed from the evaluated nodes of the trie."""
        return {
            answer: sum(self._mass.get(sequence, 0.0) for sequence in sequences)
            for answer, sequences in self._ballot.writings.items()
        }


def ballot(encode: Callable[[str], list[int]], tail: str, answers: Iterable[str]) -> Ballot:
    """Return the token sequences of each allowed answer after the text ``tail``.

    Parameters
    ----------
    encode : callable
        Function that returns the token ids of a text.
    tail : str
        Text at the end of every prompt, without trailing white space.
    answers : iterable of str
        Allowed answers as text.
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


def summarise(probabilities: Mapping[str, float], scores: Mapping[str, float]) -> tuple[float, float, float]:
    """Compute the expected score, mode and valid mass from the probabilities and scores of the allowed answers.

    The expected score is NaN if all probabilities are zero. The mode is the score of the most probable answer, and the
    valid mass is the sum of the probabilities, at most one.
    """
    mass = sum(probabilities.values())
    expected = sum(p * scores[a] for a, p in probabilities.items()) / mass if mass > 0 else math.nan
    mode = scores[max(probabilities, key=lambda a: (probabilities[a], -scores[a]))]
    return expected, mode, min(mass, 1.0)
