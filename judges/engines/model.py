"""Language models that are loaded here: tokens in, probabilities of the legal answers out. Whatever runs the model.

Belongs here: what the vLLM and transformers engines share. Does not: loading or running a model (the backends).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from judges import scoring
from judges.engines.prompted import Answer, PromptedJudgeEngine
from judges.items import Status
from judges.parsing import parse_answer
from judges.prompts import Template
from judges.spec import JudgeSpec, LocalModel

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


class ModelJudgeEngine(PromptedJudgeEngine):
    """Asks a loaded model about batches of items.

    Parameters
    ----------
    spec : JudgeSpec
    engine : LocalModel
        That of ``spec``.
    template : Template
    backend : Backend
    """

    def __init__(self, spec: JudgeSpec, engine: LocalModel, template: Template, backend: Backend) -> None:
        super().__init__(spec, engine, template)
        self._backend = backend
        self._tail = template.prefill.rstrip()
        self.version = backend.version

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        found: dict[str, Answer] = {}
        fitting: list[tuple[str, list[int]]] = []
        room = self._backend.max_length - max(self._settings.max_tokens, self._longest_writing)
        for prompt in prompts:
            tokens = self._tokens(prompt)
            if len(tokens) > room:
                found[prompt] = Answer(
                    None, Status.TOO_LONG, f"{len(tokens)} tokens, the model takes {room}", tokens_in=len(tokens)
                )
            else:
                fitting.append((prompt, tokens))
        ask = self._read_text if self._settings.scoring == "text" else self._read_probabilities
        for (prompt, _), answer in zip(fitting, ask([t for _, t in fitting]), strict=True):
            found[prompt] = answer
        return [found[prompt] for prompt in prompts]

    def _tokens(self, prompt: str) -> list[int]:
        chat = None
        if self._settings.prompt != "raw":
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

    def _read_probabilities(self, prompts: Sequence[list[int]]) -> list[Answer]:
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
            self.reading(self._ballot.probabilities(known[k]), len(prompt), spent[k])
            for k, prompt in enumerate(prompts)
        ]

    def _read_text(self, prompts: Sequence[list[int]]) -> list[Answer]:
        out: list[Answer] = []
        texts = self._backend.generate(prompts, self._settings.max_tokens)
        for tokens, (text, count) in zip(prompts, texts, strict=True):
            score, status = parse_answer(
                text, self._answers, self._template.marker, first=self._settings.profile == "paper-raw"
            )
            out.append(Answer(score, status, text, tokens_in=len(tokens), tokens_out=count))
        return out
