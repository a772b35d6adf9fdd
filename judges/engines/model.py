"""Engine of judges whose language model is loaded on this machine."""

from collections.abc import Sequence
from functools import cached_property

from judges import scoring
from judges.engines.prompted import PromptAnswer, PromptedJudgeEngine
from judges.engines.vllm import VllmBackend
from judges.items import Status
from judges.prompts import Template
from judges.spec import JudgeSpec, LocalModel


class ModelJudgeEngine(PromptedJudgeEngine):
    """Engine that scores batches of items with a loaded language model."""

    def __init__(self, spec: JudgeSpec, engine: LocalModel, template: Template, backend: VllmBackend) -> None:
        super().__init__(spec, engine, template)
        self._backend = backend
        self._tail = template.prefill.rstrip()
        self.version = backend.version

    def ask(self, prompts: Sequence[str]) -> list[PromptAnswer]:
        answers: dict[str, PromptAnswer] = {}
        fitting: dict[str, list[int]] = {}
        longest = max(len(written) for forms in self._ballot.writings.values() for written in forms)
        limit = self._backend.max_length - max(self._settings.max_tokens, longest)
        for prompt in prompts:
            tokens = self._tokens(prompt)
            if len(tokens) > limit:
                answers[prompt] = PromptAnswer(
                    None, Status.TOO_LONG, f"{len(tokens):,} tokens, but the limit is {limit:,}", tokens_in=len(tokens)
                )
            else:
                fitting[prompt] = tokens
        ask = self._read_text if self._settings.scoring == "text" else self._read_probabilities
        answers |= zip(fitting, ask([*fitting.values()]), strict=True)
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
        """Maximum total probability of omitted answers for which a score's error is at most ``scoring.EXACT_TO``."""
        width = max(self._answers.values()) - min(self._answers.values())
        return self._settings.min_valid_mass * scoring.EXACT_TO / width

    def _read_probabilities(self, prompts: Sequence[list[int]]) -> list[PromptAnswer]:
        """Compute the probabilities of all answers, one level of the token trie at a time; skip improbable branches."""
        readings = [scoring.Unfolding(self._ballot) for _ in prompts]
        asked = [0] * len(prompts)
        while nodes := [
            (k, node) for k, reading in enumerate(readings) for node in reading.next_nodes(self._negligible)
        ]:
            requests = [([*prompts[k], *node], self._ballot.wanted[node]) for k, node in nodes]
            for (k, node), answered in zip(nodes, self._backend.next_logprobs(requests), strict=True):
                readings[k].add(node, answered)
                asked[k] += 1
        return [
            self.answer_from(reading.probabilities(), len(prompt), count)
            for prompt, reading, count in zip(prompts, readings, asked, strict=True)
        ]

    def _read_text(self, prompts: Sequence[list[int]]) -> list[PromptAnswer]:
        answers: list[PromptAnswer] = []
        texts = self._backend.generate(prompts, self._settings.max_tokens)
        for tokens, (text, count) in zip(prompts, texts, strict=True):
            first = self._settings.profile != "care"
            answers.append(self.answer_in(text, text, (len(tokens), count), first=first))
        return answers
