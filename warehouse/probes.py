"""Versions of answers whose quality is known to be kept or spoilt, and the items that result.

A kind that keeps quality (a dress) changes style and leaves what is said; a kind that spoils it leaves the style and
takes what is said away. Nothing here knows whether that is true of a test set: a person declares it (``probes:`` in its
file). What becomes of a text follows from the item, the other items, the kind and the seed.
"""

from __future__ import annotations

import hashlib
import heapq
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from care_ops.errors import InputError
from warehouse.conversations import is_transcript
from warehouse.items import ItemRecord
from warehouse.versions import authority, beauty, verbosity

SWAP = "swap"
"""The two responses of a pair change places, so that a score turns round and quality stays."""

Effect = Literal["keeps", "spoils"]

WHOLE = (SWAP, "other_prompt")
"""Built-in kinds that take an answer as it is, so that they make sense of a conversation too.

The others would put words before the first speaker, or change what a tool has said along with what was made of it.
"""

_LIKE_LENGTH = 5
"""Answers to other prompts, nearest in length, among which the seed chooses."""

_BREAK = r"((?<=[.!?])\s+|\n+)"
_BULLET = r"^(?:[-*•#]+\s+|\d+[.)]\s+)"
_ASIDE = r"\([^)]*\)|\[[^\]]*\]|\*\*[^*\n]*\*\*"
_NUMBER = r"(?<![\w.,])\d+(?:[.,]\d+)*(?!\w)"
_NAME = r"(?<![.!?:;\n*#•-] )(?<=[a-z,;] )[A-ZÀ-Þ][\w’'-]+(?: [A-ZÀ-Þ][\w’'-]+)*"
_VERB = r"\b(is|are|was|were|has|have|can|could|will|would|should|must|may|might|does|do|did)\b(?! not\b)"


@dataclass(frozen=True)
class Kind:
    """A way to change an answer.

    Attributes
    ----------
    effect : {"keeps", "spoils"}
        What it does to quality where it is declared.
    changed : str
        What is different afterwards, in words that continue "when an answer".
    facts : int or None
        Names and numbers that it exchanges, for a slope; 0 for all of them, None where it exchanges none.
    """

    name: str
    effect: Effect
    changed: str
    facts: int | None = None


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("padding", "keeps", "is padded"),
        Kind("formatting", "keeps", "is dressed up with emoji, bold type and a list"),
        Kind("citation", "keeps", "cites a study that does not exist"),
        Kind("compliment", "keeps", "opens with a compliment"),
        Kind("headings", "keeps", "is put under headings"),
        Kind("hedging", "keeps", "is hedged"),
        Kind("announcement", "keeps", "announces what it is going to do"),
        Kind(SWAP, "keeps", "is shown in the other place"),
        Kind("other_prompt", "spoils", "answers another question"),
        Kind("sentences", "spoils", "has half of its sentences exchanged"),
        Kind("one_fact", "spoils", "has one name or number exchanged", 1),
        Kind("two_facts", "spoils", "has two names or numbers exchanged", 2),
        Kind("all_facts", "spoils", "has all its names and numbers exchanged", 0),
        Kind("negation", "spoils", "is denied"),
    )
}


@dataclass(frozen=True)
class ProbePlan:
    """What is true of a test set, and how much of it is tried.

    Attributes
    ----------
    kinds : mapping kind -> effect
        The kinds that are declared, built-in ones and own ones.
    templates : mapping kind -> text
        Of own kinds: the version's text, in which ``{response}`` and ``{prompt}`` stand for those of the item. Own
        kinds without a template are made by a program.
    items : int
        Size of the sample.
    """

    kinds: Mapping[str, Effect]
    templates: Mapping[str, str]
    items: int = 60
    seed: int = 0


Program = Callable[[str, str], str | None]
"""Makes the version's text of an item's prompt and response; None where there is nothing to change."""


@dataclass(frozen=True)
class Probe:
    """A version of an item.

    Attributes
    ----------
    of : str
        Id of the item that it was made from.
    record : ItemRecord
        The version, under an id of its own and without gold.
    """

    of: str
    kind: str
    record: ItemRecord


def plan_of(kinds: Sequence[str], *, items: int = 60, seed: int = 0) -> ProbePlan:
    """A plan of built-in kinds.

    Raises ``InputError`` where there is no kind of a name.
    """
    for name in kinds:
        if name not in KINDS:
            raise InputError(f"probes: no kind {name!r}; there are {', '.join(KINDS)}")
    return ProbePlan({name: KINDS[name].effect for name in kinds}, {}, items, seed)


def sample(records: Sequence[ItemRecord], items: int, seed: int) -> list[ItemRecord]:
    """So many items that have a response, chosen by a hash of their ids and the seed, in the order of the hash."""
    answered = [record for record in records if record.response]
    return sorted(answered, key=lambda record: _digest(seed, record.item_id))[:items]


def make(records: Sequence[ItemRecord], plan: ProbePlan, programs: Mapping[str, Program] | None = None) -> list[Probe]:
    """The versions of a sample of the items; an item has none of a kind that has nothing to change in it.

    The ``programs``, by kind, make the versions of own kinds that have no template. Raises ``InputError`` where no item
    has a response, none can be changed in any of the declared ways, or a kind makes no sense of what are conversations.
    """
    if not any(record.response for record in records):
        raise InputError("probes: no item has a response that could be changed; they need a test set with texts")
    by_template: dict[str, Program] = {kind: partial(_filled, text) for kind, text in plan.templates.items()}
    workshop, own = _Workshop(records, plan.seed), {**by_template, **(programs or {})}
    probes: list[Probe] = []
    chosen = sample(records, plan.items, plan.seed)
    senseless = sorted(kind for kind in plan.kinds if kind in KINDS and kind not in WHOLE)
    if senseless and all(is_transcript(record.response or "") for record in chosen):
        raise InputError(
            f"probes: {', '.join(senseless)} make no sense of a conversation of several messages, as the responses are "
            f"here; declare {' or '.join(WHOLE)}, or kinds of your own that keep to its form"
        )
    for record in chosen:
        for kind in sorted(plan.kinds):
            version = _version(workshop, record, kind, own)
            if version is not None:
                named = replace(version, item_id=probe_id(record.item_id, kind), gold=None)
                probes.append(Probe(record.item_id, kind, named))
    if not probes:
        raise InputError(
            f"probes: none of {plan.items} items can be changed by {', '.join(sorted(plan.kinds))}; declare other kinds"
        )
    return probes


def probe_id(item_id: str, kind: str) -> str:
    """Item id of a version."""
    return f"{item_id} probe {kind}"


def _filled(template: str, prompt: str, response: str) -> str:
    return template.replace("{prompt}", prompt).replace("{response}", response)


def _version(workshop: _Workshop, record: ItemRecord, kind: str, own: Mapping[str, Program]) -> ItemRecord | None:
    """A version of an item, whose first response is changed; None where there is nothing to change."""
    response = record.response or ""
    if kind == SWAP:
        return None if record.response_2 is None else replace(record, response=record.response_2, response_2=response)
    if kind in KINDS and kind not in WHOLE and is_transcript(response):
        return None
    if kind in own:
        text = own[kind](record.prompt or "", response)
    elif kind in _DRESSES:
        text = _DRESSES[kind](response)
    else:
        text = _SPOILS[kind](workshop, record)
    return None if text is None or text == response else replace(record, response=text)


def _with_headings(text: str) -> str:
    first, *rest = text.strip().split("\n")
    return "\n".join(["## Answer", "", first, *(["", "## Details", "", *rest] if rest else [])])


_DRESSES: dict[str, Callable[[str], str]] = {
    "padding": verbosity,
    "formatting": beauty,
    "citation": authority,
    "compliment": lambda text: f"That is an excellent question, and it is a pleasure to be asked it! {text}",
    "headings": _with_headings,
    "hedging": lambda text: f"If I am not mistaken, this is so. {text} At least, this is how I understand it.",
    "announcement": lambda text: f"In what follows I am going to answer this, one point after the other. {text}",
}


class _Workshop:
    """The other items, from which spoilt versions take their parts."""

    def __init__(self, records: Sequence[ItemRecord], seed: int) -> None:
        self._records = [record for record in records if record.response]
        self._seed = seed
        self._questions_of: dict[str, set[str]] = {}
        for record in self._records:
            for fact in _facts(record.response or ""):
                self._questions_of.setdefault(fact, set()).add(_question(record))

    def random(self, record: ItemRecord, purpose: str) -> random.Random:
        """Random numbers that follow from the item, what they are for, and the seed."""
        return random.Random(_digest(self._seed, record.item_id, purpose))

    def other_answer(self, record: ItemRecord, purpose: str) -> str | None:
        """An answer of like length to another prompt; None where all items share one."""
        others = [r for r in self._records if _question(r) != _question(record) and r.response != record.response]
        length = len(record.response or "")
        nearest = heapq.nsmallest(_LIKE_LENGTH, others, lambda r: (abs(len(r.response or "") - length), r.item_id))
        return self.random(record, purpose).choice(nearest).response if nearest else None

    def exchanged(self, record: ItemRecord, count: int) -> str | None:
        """The answer with so many of its names and numbers exchanged (0 for all); None where it has not so many.

        Names of the question are left, since they say what the answer is about; and what stands in the reference never
        takes another's place. The facts that are exchanged first are among those that are exchanged when more are.
        """
        response, question = record.response or "", record.prompt or ""
        chance = self.random(record, "facts")
        facts = [fact for fact in _facts(response) if not _occurs(fact, question)]
        if len(facts) < max(count, 1):
            return None
        chance.shuffle(facts)
        known = f"{question} {response} {record.reference or ''}"
        substitutes: dict[str, str] = {}
        for fact in facts:
            candidates = self._substitutes(record, fact, known)
            if candidates:
                substitutes[fact] = chance.choice(candidates)
        if len(substitutes) < max(count, 1):
            return None
        chosen = dict(list(substitutes.items())[: count or None])
        pattern = re.compile("|".join(rf"(?<!\w){re.escape(fact)}(?!\w)" for fact in sorted(chosen, key=len)[::-1]))
        return pattern.sub(lambda match: chosen[match.group()], response)

    def _substitutes(self, record: ItemRecord, fact: str, known: str) -> list[str]:
        """Facts of the same form in answers to other prompts, which neither question, answer nor reference name."""
        elsewhere = (
            other
            for other, questions in self._questions_of.items()
            if other[0].isdigit() == fact[0].isdigit() and questions != {_question(record)}
        )
        return sorted(other for other in elsewhere if not _occurs(other, known))


def _half_exchanged(workshop: _Workshop, record: ItemRecord) -> str | None:
    """Half of the sentences exchanged with those of an answer to another prompt; list marks stay.

    A sentence of the reference never takes another's place.
    """
    donor = workshop.other_answer(record, "sentences")
    pieces = re.split(_BREAK, record.response or "")
    places = [k for k in range(0, len(pieces), 2) if pieces[k].strip()]
    sentences = [] if donor is None else [re.sub(_BULLET, "", s) for s in re.split(_BREAK, donor)[::2] if s.strip()]
    reference = record.reference or ""
    lent = [s for s in sentences if not any(part in reference for part in (s, re.sub(_ASIDE, "", s).rstrip(" .!?")))]
    if not lent or not places:
        return None
    chance = workshop.random(record, "sentences of it")
    for n, place in enumerate(chance.sample(places, (len(places) + 1) // 2)):
        mark = re.match(_BULLET, pieces[place])
        pieces[place] = (mark.group() if mark else "") + lent[n % len(lent)]
    return "".join(pieces)


def _denied(_: _Workshop, record: ItemRecord) -> str | None:
    """Every sentence denied, by its first verb or as a whole."""
    pieces = re.split(_BREAK, record.response or "")
    for place in range(0, len(pieces), 2):
        if not any(character.isalpha() for character in pieces[place]):
            continue
        mark = re.match(_BULLET, pieces[place])
        opening = mark.group() if mark else ""
        sentence = pieces[place][len(opening) :]
        denied, verbs = re.subn(_VERB, r"\1 not", sentence, count=1)
        pieces[place] = opening + (denied if verbs else f"It is wrong to say: {sentence}")
    return "".join(pieces)


_SPOILS: dict[str, Callable[[_Workshop, ItemRecord], str | None]] = {
    "other_prompt": lambda workshop, record: workshop.other_answer(record, "other_prompt"),
    "sentences": _half_exchanged,
    "one_fact": lambda workshop, record: workshop.exchanged(record, 1),
    "two_facts": lambda workshop, record: workshop.exchanged(record, 2),
    "all_facts": lambda workshop, record: workshop.exchanged(record, 0),
    "negation": _denied,
}


def _facts(text: str) -> list[str]:
    """The different names and numbers of a text, without asides, headings and the numbers of a list."""
    lines = [re.sub(_BULLET, "", line) for line in re.sub(_ASIDE, " ", text).splitlines()]
    body = "\n".join(lines)
    return list(dict.fromkeys([*re.findall(_NAME, body), *re.findall(_NUMBER, body)]))


def _occurs(fact: str, text: str) -> bool:
    return fact in text and re.search(rf"(?<!\w){re.escape(fact)}(?!\w)", text) is not None


def _question(record: ItemRecord) -> str:
    """What an item answers: its prompt, or else its split unit, or else itself."""
    return record.prompt or record.split_unit or record.item_id


def _digest(*parts: object) -> str:
    return hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()
