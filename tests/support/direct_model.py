"""Model that transformers runs with one forward pass for each request, as an oracle for vLLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judges.engines.vllm import VllmBackend
from judges.spec import LocalModel


class DirectModel(VllmBackend):
    """Replacement for vLLM in which transformers computes every probability in float32."""

    def __init__(self, engine: LocalModel) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._torch: Any = torch
        self._tokenizer = AutoTokenizer.from_pretrained(engine.model)
        self._model: Any = AutoModelForCausalLM.from_pretrained(engine.model, dtype=torch.float32).eval()
        self.max_length = int(self._model.config.max_position_embeddings)
        self.version = "transformers"

    def log_probabilities(self, tokens: Sequence[int]) -> Any:
        """Return the log probability of every token after a prompt."""
        with self._torch.inference_mode():
            logits = self._model(self._torch.tensor([list(tokens)]), logits_to_keep=1).logits[0, -1]
        return self._torch.log_softmax(logits.double(), dim=-1)

    def next_logprobs(self, requests: Sequence[tuple[list[int], tuple[int, ...]]]) -> list[dict[int, float]]:
        rows = [self.log_probabilities(tokens) for tokens, _ in requests]
        return [{token: float(row[token]) for token in wanted} for row, (_, wanted) in zip(rows, requests, strict=True)]

    def generate(self, prompts: Sequence[list[int]], max_tokens: int) -> list[tuple[str, int]]:
        settings = {"max_new_tokens": max_tokens, "do_sample": False, "pad_token_id": 0}
        rows = [self._torch.tensor([prompt]) for prompt in prompts]
        masks = map(self._torch.ones_like, rows)  # without it the first token would count as padding
        full = [
            self._model.generate(ids, attention_mask=mask, **settings)[0].tolist()
            for ids, mask in zip(rows, masks, strict=True)
        ]
        return [self.written(tokens[len(prompt) :]) for tokens, prompt in zip(full, prompts, strict=True)]
