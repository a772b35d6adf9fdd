"""The backend that runs a model with Hugging Face transformers, for machines without vLLM.

Belongs here: loading and running a model with transformers. Does not belong here: prompts and scores (``model``).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from care_ops.errors import JudgeError
from judges.spec import LocalModel

_PROMPTS_AT_ONCE = 16


class TransformersBackend:
    """A causal language model, on the GPU if there is one and on the CPU otherwise."""

    def __init__(self, engine: LocalModel) -> None:
        try:
            torch: Any = importlib.import_module("torch")
            transformers: Any = importlib.import_module("transformers")
        except ImportError as error:
            raise JudgeError(
                "the transformers engine needs torch and transformers; install them (pip install "
                f"'care-eval[transformers]'): {error}"
            ) from error
        self._torch = torch
        device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = engine.dtype if engine.dtype != "auto" else ("bfloat16" if device == "cuda" else "float32")
        options = {"revision": engine.revision, "trust_remote_code": False}
        self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(engine.model, **options)
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            engine.model, dtype=getattr(torch, dtype), use_safetensors=True, **options
        )
        self._model.to(device).eval()
        longest = int(getattr(self._model.config, "max_position_embeddings", 4096))
        self.max_length = min(engine.max_length or longest, longest)
        self.version = f"transformers {transformers.__version__} {dtype} {device}"

    def encode(self, text: str, *, special: bool) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=special))

    def chat(self, text: str) -> str | None:
        return chat_form(self._tokenizer, text)

    def next_logprobs(self, requests: Sequence[tuple[list[int], tuple[int, ...]]]) -> list[dict[int, float]]:
        log_probabilities: list[dict[int, float]] = [{} for _ in requests]
        order = sorted(range(len(requests)), key=lambda k: len(requests[k][0]))
        for first in range(0, len(order), _PROMPTS_AT_ONCE):
            chosen = order[first : first + _PROMPTS_AT_ONCE]
            logits = self._last_logits([requests[k][0] for k in chosen])
            for k, row in zip(chosen, self._torch.log_softmax(logits.float(), dim=-1), strict=True):
                wanted = requests[k][1]
                log_probabilities[k] = dict(zip(wanted, row[list(wanted)].tolist(), strict=True))
        return log_probabilities

    def generate(self, prompts: Sequence[list[int]], max_tokens: int) -> list[tuple[str, int]]:
        answers: list[tuple[str, int]] = []
        for prompt in prompts:
            ids = self._torch.tensor([prompt], device=self._model.device)
            with self._torch.inference_mode():
                full = self._model.generate(
                    ids,
                    attention_mask=self._torch.ones_like(ids),
                    max_new_tokens=max_tokens,
                    do_sample=False,
                    pad_token_id=self._tokenizer.eos_token_id or 0,
                )
            fresh = full[0, len(prompt) :]
            answers.append((text_of(self._tokenizer, fresh.tolist()), len(fresh)))
        return answers

    def _last_logits(self, prompts: Sequence[list[int]]) -> Any:
        """Logits of the token after each prompt, as a (prompts, vocabulary) tensor; prompts are padded on the left."""
        longest = max(map(len, prompts))
        ids = self._torch.zeros((len(prompts), longest), dtype=self._torch.long)
        mask = self._torch.zeros_like(ids)
        for k, prompt in enumerate(prompts):
            ids[k, longest - len(prompt) :] = self._torch.tensor(prompt)
            mask[k, longest - len(prompt) :] = 1
        device = self._model.device
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        with self._torch.inference_mode():
            output = self._model(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                position_ids=positions.to(device),
                logits_to_keep=1,
            )
        return output.logits[:, -1]


def text_of(tokenizer: Any, tokens: Sequence[int]) -> str:
    """The text of a model's tokens, without special tokens and without a last character that is incomplete."""
    return str(tokenizer.decode(list(tokens), skip_special_tokens=True)).rstrip("\N{REPLACEMENT CHARACTER}")


def chat_form(tokenizer: Any, text: str) -> str | None:
    """The text in the model's chat format, up to where the answer begins; None if the tokenizer has no such format.

    Thinking is turned off if the model's chat template has a switch for it.
    """
    if not getattr(tokenizer, "chat_template", None):
        return None
    return str(
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
    )
