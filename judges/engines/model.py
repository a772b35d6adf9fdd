"""Judges that are language models: prompt, probabilities of the legal answers, score. Whatever runs the model.

Belongs here: what the vLLM and transformers engines share. Does not: loading or running a model (the backends).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from judges import scoring
from judges.items import Item, Score, Status
from judges.parsing import parse_answer
from judges.prompts import Template
from judges.spec import JudgeSpec, LocalModel

_RAW_LIMIT = 500
_NEGLIGIBLE = 1e-5


class Backend(Protocol):
    """A model that is loaded.

    Attributes
    ----------
    version : str
        Engine, its version and the number format; recorded beside each score.
    max_length : int
        Tokens of prompt and answer together.
    """

    version: str
    max_length: int

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Token ids; ``special`` puts the tokenizer's own opening token first."""
        ...

    def chat(self, text: str) -> str | None:
        """The text as a user's turn up to where the answer begins; None for a model without a chat form."""
        ...

    def next_logprobs(self, requests: Sequence[tuple[list[int], tuple[int, ...]]]) -> list[dict[int, float]]:
        """For each (prompt, tokens): log probability of each token right after the prompt."""
        ...

    def generate(self, prompts: Sequence[list[int]], max_tokens: int) -> list[tuple[str, int]]:
        """Greedy continuation of each prompt, and how many tokens it has."""
        ...


@dataclass(frozen=True)
class _Answer:
    """One prompt's."""

    score: float | None
    status: Status
    raw: str | None = None
    probabilities: dict[str, float] | None = None
    valid_mass: float | None = None
    tokens_in: int = 0
    tokens_out: int = 0


class ModelJudgeEngine:
    """Asks a loaded model about batches of items.

    Parameters
    ----------
    spec : JudgeSpec
        With a ``LocalModel`` whose template is known.
    template : Template
    backend : Backend
    """

    def __init__(self, spec: JudgeSpec, template: Template, backend: Backend) -> None:
        assert isinstance(spec.engine, LocalModel)
        self._engine, self._template, self._backend = spec.engine, template, backend
        self._answers = template.answers(spec.scale)
        self._scale = spec.scale
        self._tail = self._template.prefill.rstrip()
        self.version = backend.version

    def score(self, items: Sequence[Item]) -> list[Score]:
        """One score an item; pairs are shown both ways unless the judge says otherwise."""
        started = time.perf_counter()
        both = self._template.pairwise and self._engine.orders == "both"
        prompts: list[str | None] = []
        for item in items:
            lacking = self._template.missing(item)
            shown = [item, _swapped(item)] if both else [item]
            prompts += [None if lacking else self._template.render(one, self._scale) for one in shown]
        answered = self._ask([p for p in prompts if p is not None])
        waiting = iter(answered)
        answers = [None if p is None else next(waiting) for p in prompts]
        per_item = 1e3 * (time.perf_counter() - started) / max(len(items), 1)
        step = 2 if both else 1
        return [self._combined(item, answers[k * step : (k + 1) * step], per_item) for k, item in enumerate(items)]

    def close(self) -> None:
        """The model's memory goes with its process."""

    def _combined(self, item: Item, answers: Sequence[_Answer | None], latency: float) -> Score:
        first = answers[0]
        if first is None:
            lacking = ", ".join(self._template.missing(item))
            return Score(
                item.item_id, item.key, None, Status.REFUSED, f"template {self._template.name} needs {lacking}", latency
            )
        parts = [a for a in answers if a is not None]
        bad = next((a for a in parts if a.status is not Status.OK), None)
        score, status, raw = first.score, first.status, first.raw
        if bad is not None:
            score, status, raw = None, bad.status, bad.raw
        elif len(parts) == 2:
            assert parts[0].score is not None
            assert parts[1].score is not None
            score = (parts[0].score - parts[1].score) / 2
        dumped = [a.probabilities for a in parts]
        p_json = None
        if all(p is not None for p in dumped):
            rounded = [{k: round(v, 6) for k, v in (p or {}).items() if v >= 1e-6} for p in dumped]
            p_json = json.dumps(rounded[0] if len(rounded) == 1 else {"ab": rounded[0], "ba": rounded[1]})
        masses = [a.valid_mass for a in parts if a.valid_mass is not None]
        return Score(
            item.item_id,
            item.key,
            score,
            status,
            raw[:_RAW_LIMIT] if raw else None,
            latency,
            p_json=p_json,
            valid_mass=min(masses) if masses else None,
            order="both" if len(parts) == 2 else None,
            tokens_in=sum(a.tokens_in for a in parts),
            tokens_out=sum(a.tokens_out for a in parts),
        )

    def _ask(self, prompts: Sequence[str]) -> list[_Answer]:
        """Each different prompt once."""
        distinct = list(dict.fromkeys(prompts))
        found: dict[str, _Answer] = {}
        fitting: list[tuple[str, list[int]]] = []
        room = self._backend.max_length - max(self._engine.max_tokens, self._longest_writing)
        for prompt in distinct:
            tokens = self._tokens(prompt)
            if len(tokens) > room:
                found[prompt] = _Answer(
                    None, Status.TOO_LONG, f"{len(tokens)} tokens, the model takes {room}", tokens_in=len(tokens)
                )
            else:
                fitting.append((prompt, tokens))
        ask = self._read_text if self._engine.scoring == "text" else self._read_probabilities
        for (prompt, _), answer in zip(fitting, ask([t for _, t in fitting]), strict=True):
            found[prompt] = answer
        return [found[prompt] for prompt in prompts]

    def _tokens(self, prompt: str) -> list[int]:
        chat = None
        if self._engine.prompt != "raw":
            chat = self._backend.chat(prompt)
        if chat is not None:
            return self._backend.encode(chat + self._tail, special=False)
        return self._backend.encode(f"{prompt}\n\n{self._tail}", special=True)

    @cached_property
    def _ballot(self) -> scoring.Ballot:
        return scoring.ballot(lambda text: self._backend.encode(text, special=False), self._tail, self._answers)

    @cached_property
    def _longest_writing(self) -> int:
        return max(len(s) for sequences in self._ballot.writings.values() for s in sequences)

    def _read_probabilities(self, prompts: Sequence[list[int]]) -> list[_Answer]:
        known: list[dict[scoring.Prefix, dict[int, float]]] = [{} for _ in prompts]
        spent = [0] * len(prompts)
        while True:
            looks = [(k, p) for k in range(len(prompts)) for p in self._ballot.next_looks(known[k], _NEGLIGIBLE)]
            if not looks:
                break
            requests = [([*prompts[k], *prefix], self._ballot.wanted(prefix)) for k, prefix in looks]
            for (k, prefix), logprobs in zip(looks, self._backend.next_logprobs(requests), strict=True):
                known[k][prefix] = logprobs
                spent[k] += 1
        return [
            self._reading(self._ballot.probabilities(known[k]), len(prompt), spent[k])
            for k, prompt in enumerate(prompts)
        ]

    def _reading(self, probabilities: dict[str, float], tokens_in: int, tokens_out: int) -> _Answer:
        reading = scoring.read(probabilities, self._answers)
        score: float | None = reading.expected if self._engine.scoring == "expected" else reading.mode
        status, raw = Status.OK, None
        if math.isnan(reading.expected) or reading.valid_mass < self._engine.min_valid_mass:
            score, status = None, Status.LOW_VALID_MASS
            raw = (
                f"{reading.valid_mass:.3f} of the probability is on legal answers, {self._engine.min_valid_mass} asked"
            )
        return _Answer(score, status, raw, probabilities, reading.valid_mass, tokens_in, tokens_out)

    def _read_text(self, prompts: Sequence[list[int]]) -> list[_Answer]:
        out: list[_Answer] = []
        texts = self._backend.generate(prompts, self._engine.max_tokens)
        for tokens, (text, count) in zip(prompts, texts, strict=True):
            score, status = parse_answer(
                text, self._answers, self._template.marker, first=self._engine.profile == "paper-raw"
            )
            out.append(_Answer(score, status, text, tokens_in=len(tokens), tokens_out=count))
        return out


def _swapped(item: Item) -> Item:
    return Item(item.item_id, item.prompt, item.response_2, item.response, item.reference, item.aspect)
