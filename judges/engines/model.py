"""Engine of language models that run on this machine, and the base class of its backends."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from judges import scoring
from judges.engines.prompted import PromptAnswer, PromptedJudgeEngine
from judges.items import Status
from judges.prompts import Template
from judges.spec import JudgeSpec, LocalModel


class Backend(ABC):
    """Base class of backends, each of which holds a loaded model.

    Attributes
    ----------
    version : str
        Name and version of the engine, and the number format; it is recorded with each score.
    max_length : int
        Maximum number of tokens of a prompt and its answer together.
    """

    version: str
    max_length: int
    _tokenizer: Any

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the token ids of a text, with the tokenizer's special tokens if ``special`` is true."""
        return list(self._tokenizer.encode(text, add_special_tokens=special))

    def chat(self, text: str) -> str | None:
        """Return a text in the model's chat format, ready for the answer, or None if the model has no chat format.

        Thinking is turned off if the model's chat template has a switch for it.
        """
        if not getattr(self._tokenizer, "chat_template", None):
            return None
        messages, settings = [{"role": "user", "content": text}], {"tokenize": False, "add_generation_prompt": True}
        return str(self._tokenizer.apply_chat_template(messages, **settings, enable_thinking=False))

    def written(self, tokens: Sequence[int]) -> tuple[str, int]:
        """Decode tokens without special tokens or an incomplete last character; return the text and token count."""
        text = str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))
        return text.rstrip("\N{REPLACEMENT CHARACTER}"), len(tokens)

    @abstractmethod
    def next_logprobs(self, requests: Sequence[tuple[list[int], tuple[int, ...]]]) -> list[dict[int, float]]:
        """Return the log probability that each of the given tokens follows its prompt."""

    def trie_logprobs(
        self, prompts: Sequence[list[int]], wanted: Mapping[scoring.Prefix, tuple[int, ...]]
    ) -> list[dict[scoring.Prefix, dict[int, float]]] | None:
        """Return the log probabilities of the wanted tokens after each prompt followed by each token sequence.

        The result is None if the backend cannot read all sequences at once. The caller then requests the sequences that
        matter with ``next_logprobs``.
        """
        return None

    @abstractmethod
    def generate(self, prompts: Sequence[list[int]], max_tokens: int) -> list[tuple[str, int]]:
        """Continue each prompt greedily, and return the text and its number of tokens for each prompt."""


class ModelJudgeEngine(PromptedJudgeEngine):
    """Engine that asks a loaded model about batches of items."""

    def __init__(self, spec: JudgeSpec, engine: LocalModel, template: Template, backend: Backend) -> None:
        super().__init__(spec, engine, template)
        self._backend = backend
        self._tail = template.prefill.rstrip()
        self.version = backend.version

    def ask(self, prompts: Sequence[str]) -> list[PromptAnswer]:
        answers: dict[str, PromptAnswer] = {}
        fitting: list[tuple[str, list[int]]] = []
        longest = max(len(written) for forms in self._ballot.writings.values() for written in forms)
        limit = self._backend.max_length - max(self._settings.max_tokens, longest)
        for prompt in prompts:
            tokens = self._tokens(prompt)
            if len(tokens) > limit:
                answers[prompt] = PromptAnswer(
                    None, Status.TOO_LONG, f"{len(tokens)} tokens, the model takes {limit}", tokens_in=len(tokens)
                )
            else:
                fitting.append((prompt, tokens))
        ask = self._read_text if self._settings.scoring == "text" else self._read_probabilities
        for (prompt, _), answer in zip(fitting, ask([t for _, t in fitting]), strict=True):
            answers[prompt] = answer
        return [answers[prompt] for prompt in prompts]

    def _tokens(self, prompt: str) -> list[int]:
        chat = self._backend.chat(prompt) if self._settings.prompt != "raw" else None
        if chat is not None:
            return self._backend.encode(chat + self._tail, special=False)
        return self._backend.encode(f"{prompt}\n\n{self._tail}", special=True)

    @cached_property
    def _ballot(self) -> scoring.Ballot:
        return scoring.ballot(lambda text: self._backend.encode(text, special=False), self._tail, self._answers)

    @cached_property
    def _negligible(self) -> float:
        """Probability that may be ignored while expected scores remain exact to ``scoring.EXACT_TO``."""
        return scoring.EXACT_TO / (max(self._answers.values()) - min(self._answers.values()))

    def _read_probabilities(self, prompts: Sequence[list[int]]) -> list[PromptAnswer]:
        if not prompts:
            return []
        readings = [scoring.Unfolding(self._ballot) for _ in prompts]
        at_once = self._backend.trie_logprobs(prompts, self._ballot.wanted)
        asked = self._ask_by_node(prompts, readings) if at_once is None else _add_all(at_once, readings)
        return [
            self.answer_from(reading.probabilities(), len(prompt), count)
            for prompt, reading, count in zip(prompts, readings, asked, strict=True)
        ]

    def _ask_by_node(self, prompts: Sequence[list[int]], readings: Sequence[scoring.Unfolding]) -> list[int]:
        """Evaluate the trie nodes that matter, depth by depth, and return their number for each prompt."""
        asked = [0] * len(prompts)
        while nodes := [
            (k, node) for k, reading in enumerate(readings) for node in reading.next_nodes(self._negligible)
        ]:
            requests = [([*prompts[k], *node], self._ballot.wanted[node]) for k, node in nodes]
            for (k, node), answered in zip(nodes, self._backend.next_logprobs(requests), strict=True):
                readings[k].add(node, answered)
                asked[k] += 1
        return asked

    def _read_text(self, prompts: Sequence[list[int]]) -> list[PromptAnswer]:
        answers: list[PromptAnswer] = []
        texts = self._backend.generate(prompts, self._settings.max_tokens)
        for tokens, (text, count) in zip(prompts, texts, strict=True):
            first = self._settings.profile != "care"
            answers.append(self.answer_in(text, text, (len(tokens), count), first=first))
        return answers


def _add_all(
    by_node: Sequence[Mapping[scoring.Prefix, Mapping[int, float]]], readings: Sequence[scoring.Unfolding]
) -> list[int]:
    """Add the log probabilities at each trie node to the readings, and return the number of nodes for each prompt."""
    for answered, reading in zip(by_node, readings, strict=True):
        for node in sorted(answered, key=len):
            reading.add(node, answered[node])
    return [len(answered) for answered in by_node]
