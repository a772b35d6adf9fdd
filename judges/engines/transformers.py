"""Backend that runs a model with Hugging Face transformers, for machines without vLLM."""

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from care_ops.errors import JudgeError, how_to_install
from judges.engines.model import Backend
from judges.scoring import Prefix
from judges.spec import LocalModel

_log = logging.getLogger(__name__)
_PROMPTS_AT_ONCE = 16
"""Number of prompts in one forward pass of the model."""

_SAME_MODEL = 0.25
"""Largest acceptable mean difference between log probabilities from joint and from single forward passes.

Rounding in bfloat16 gives .05. A model that ignores its attention mask reads other answers before each answer.
"""


class TransformersBackend(Backend):
    """Backend with a causal language model, on the GPU if there is one and on the CPU otherwise."""

    def __init__(self, engine: LocalModel) -> None:
        try:
            torch: Any = importlib.import_module("torch")
            transformers: Any = importlib.import_module("transformers")
        except ImportError as error:
            raise JudgeError(
                f"the transformers engine needs torch and transformers; {how_to_install('transformers')}: {error}"
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
        self._name = engine.model
        self._reads_tries: bool | None = None if attends_to_everything(self._model.config) else False
        self.version = f"transformers {transformers.__version__} {dtype} {device}"

    def next_logprobs(self, requests: Sequence[tuple[list[int], tuple[int, ...]]]) -> list[dict[int, float]]:
        log_probabilities: list[dict[int, float]] = [{} for _ in requests]

        def read(chosen: Sequence[int]) -> None:
            output, _ = self._read([requests[k][0] for k in chosen])
            for k, row in zip(chosen, self._log_probabilities(output.logits[:, -1]), strict=True):
                log_probabilities[k] = _picked(row, requests[k][1])

        self._in_groups([prompt for prompt, _ in requests], read)
        return log_probabilities

    def trie_logprobs(
        self, prompts: Sequence[list[int]], wanted: Mapping[Prefix, tuple[int, ...]]
    ) -> list[dict[Prefix, dict[int, float]]] | None:
        """Return the log probabilities at all trie nodes in two forward passes, or None if the model ignores masks."""
        if self._reads_tries is None:
            self._reads_tries = self._agrees_with_single_passes(prompts[0], wanted)
            if not self._reads_tries:
                _log.info("%s ignores attention masks, so CARE reads each answer in a separate pass.", self._name)
        return self._read_tries(prompts, wanted) if self._reads_tries else None

    def _agrees_with_single_passes(self, prompt: list[int], wanted: Mapping[Prefix, tuple[int, ...]]) -> bool:
        """Return whether the model respects an attention mask that hides branches of the trie from each other."""
        nodes = sorted(wanted, key=len)[-2:]
        try:
            (at_once,) = self._read_tries([prompt], wanted)
        except (TypeError, ValueError, RuntimeError, AttributeError):  # no cache of keys, or no mask of this shape
            return False
        one_by_one = self.next_logprobs([([*prompt, *node], wanted[node]) for node in nodes])
        return all(
            sum(abs(at_once[node][token] - single[token]) for token in single) <= _SAME_MODEL * len(single)
            for node, single in zip(nodes, one_by_one, strict=True)
        )

    def _read_tries(
        self, prompts: Sequence[list[int]], wanted: Mapping[Prefix, tuple[int, ...]]
    ) -> list[dict[Prefix, dict[int, float]]]:
        nodes = [node for node in sorted(wanted, key=len) if node]
        by_node: list[dict[Prefix, dict[int, float]]] = [{} for _ in prompts]

        def read(chosen: Sequence[int]) -> None:
            output, mask = self._read([prompts[k] for k in chosen], use_cache=bool(nodes))
            for k, row in zip(chosen, self._log_probabilities(output.logits[:, -1]), strict=True):
                by_node[k][()] = _picked(row, wanted[()])
            if nodes:
                logits = self._branch_logits(nodes, mask, output.past_key_values)
                for k, rows in zip(chosen, self._log_probabilities(logits), strict=True):
                    by_node[k] |= {node: _picked(row, wanted[node]) for node, row in zip(nodes, rows, strict=True)}

        self._in_groups(prompts, read)
        return by_node

    def _in_groups(self, prompts: Sequence[list[int]], read: Callable[[Sequence[int]], None]) -> None:
        """Call ``read`` with groups of prompts of similar length."""
        by_length = sorted(range(len(prompts)), key=lambda k: len(prompts[k]))
        for start in range(0, len(by_length), _PROMPTS_AT_ONCE):
            read(by_length[start : start + _PROMPTS_AT_ONCE])

    def _branch_logits(self, nodes: Sequence[Prefix], mask: Any, cache: Any) -> Any:
        """Return the logits after each node (prompts, nodes, vocabulary), given the prompts' key-value ``cache``."""
        torch, device = self._torch, self._model.device
        prompts = len(mask)
        seen = torch.tensor([[node[: len(other)] == other for other in nodes] for node in nodes])
        visible = torch.cat(
            [mask.bool()[:, None, :].expand(-1, len(nodes), -1), seen.expand(prompts, -1, -1)], dim=2
        ).to(device)
        bias = torch.zeros(visible.shape, dtype=self._model.dtype, device=device)
        bias.masked_fill_(~visible, torch.finfo(self._model.dtype).min)
        depth = torch.tensor([len(node) - 1 for node in nodes])
        with torch.inference_mode():
            output = self._model(
                input_ids=torch.tensor([node[-1] for node in nodes]).expand(prompts, -1).to(device),
                attention_mask=bias[:, None],
                position_ids=(mask.sum(dim=1, keepdim=True) + depth).to(device),
                past_key_values=cache,
                use_cache=True,
            )
        return output.logits

    def _log_probabilities(self, logits: Any) -> Any:
        return self._torch.log_softmax(logits.float(), dim=-1)

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
            answers.append(self.written(full[0, len(prompt) :].tolist()))
        return answers

    def _read(self, prompts: Sequence[list[int]], *, use_cache: bool = False) -> tuple[Any, Any]:
        """Run the model on left-padded prompts, and return its output and the attention mask."""
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
                use_cache=use_cache,
            )
        return output, mask


def attends_to_everything(config: Any) -> bool:
    """Return whether every layer of a model attends to the whole prompt, without a sliding window."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds is not None:
        return set(kinds) == {"full_attention"}
    return getattr(text, "sliding_window", None) is None


def _picked(row: Any, tokens: tuple[int, ...]) -> dict[int, float]:
    return dict(zip(tokens, row[list(tokens)].tolist(), strict=True))
