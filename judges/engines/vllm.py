"""Language model that vLLM runs in this process."""

import fcntl
import importlib
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from care_ops.errors import JudgeError, how_to_install
from judges.spec import LocalModel

_TOKENS_AT_ONCE = 128
"""Maximum number of tokens whose probabilities vLLM returns for one request; more tokens need further requests."""


@contextmanager
def loading(gpus: str) -> Generator[None]:
    """Lock the GPUs while a model is loading, because vLLM measures memory use during loading.

    If two models load on one GPU together, each measurement includes the weights of the other model, and a model may
    get no memory for its KV cache.
    """
    lock = Path(tempfile.gettempdir()) / f"care-vllm-{os.getuid()}-{gpus.replace(',', '-')}.lock"
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class VllmBackend:
    """Language model and tokenizer, loaded by vLLM.

    Attributes
    ----------
    version : str
        Name and version of the engine, and data type of the model; stored with each score.
    max_length : int
        Maximum total number of tokens of a prompt and its answer.

    Notes
    -----
    vLLM accepts no attention mask, so each sequence of tokens is a separate request. CARE does not
    request log probabilities of the prompt, because such a request does not read the prefix cache.
    """

    def __init__(self, engine: LocalModel) -> None:
        # The engine must run in the process of the Ray actor, so that Ray notices when it dies.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        try:
            vllm: Any = importlib.import_module("vllm")
        except ImportError as error:
            raise JudgeError(
                f"vLLM cannot be imported ({error}); {how_to_install('vllm')}, or set kind: openai in the "
                "judge's engine"
            ) from error
        self._vllm = vllm
        options: dict[str, Any] = dict(engine.vllm)
        if engine.max_length:
            options["max_model_len"] = engine.max_length
        if engine.gpus > 1:  # the GPUs of one machine that Ray assigned to this actor
            options.setdefault("distributed_executor_backend", "mp")
            options.setdefault("tensor_parallel_size", int(engine.gpus) // options.get("pipeline_parallel_size", 1))
        with loading(os.environ.get("CUDA_VISIBLE_DEVICES", "")) if engine.gpus else nullcontext():
            self._model: Any = vllm.LLM(
                model=engine.model,
                revision=engine.revision,
                dtype=engine.dtype,
                # of its share of a GPU, or of the memory of a machine without one
                gpu_memory_utilization=0.9 * min(1.0, engine.gpus) if engine.gpus else 0.3,
                trust_remote_code=False,
                load_format="safetensors",
                enable_prefix_caching=True,
                disable_log_stats=True,
                seed=0,
                **options,
            )
        self._tokenizer: Any = self._model.get_tokenizer()
        config = self._model.llm_engine.model_config
        self.max_length = int(config.max_model_len)
        self.version = f"vllm {vllm.__version__} {str(config.dtype).removeprefix('torch.')}"

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the token ids of a text, with the tokenizer's special tokens if ``special`` is true."""
        return list(self._tokenizer.encode(text, add_special_tokens=special))

    def chat(self, text: str) -> str | None:
        """Convert a text to a prompt in the model's chat format; return None if the model has no chat format.

        Thinking is switched off if the model's chat template allows this.
        """
        if not getattr(self._tokenizer, "chat_template", None):
            return None
        messages, settings = [{"role": "user", "content": text}], {"tokenize": False, "add_generation_prompt": True}
        return str(self._tokenizer.apply_chat_template(messages, **settings, enable_thinking=False))

    def written(self, tokens: list[int]) -> tuple[str, int]:
        """Decode tokens, omitting special tokens and an incomplete last character; return text and token count."""
        text = str(self._tokenizer.decode(tokens, skip_special_tokens=True))
        return text.rstrip("\N{REPLACEMENT CHARACTER}"), len(tokens)

    def next_logprobs(self, requests: Sequence[tuple[list[int], tuple[int, ...]]]) -> list[dict[int, float]]:
        """Return, for each request (prompt, candidates), the log probability of each candidate as the next token."""
        chunks = [
            (k, tokens, wanted[first : first + _TOKENS_AT_ONCE])
            for k, (tokens, wanted) in enumerate(requests)
            for first in range(0, len(wanted), _TOKENS_AT_ONCE)
        ]
        parameters = [
            self._vllm.SamplingParams(max_tokens=1, temperature=0.0, logprob_token_ids=list(wanted), detokenize=False)
            for _, _, wanted in chunks
        ]
        prompts = [{"prompt_token_ids": tokens} for _, tokens, _ in chunks]
        log_probabilities: list[dict[int, float]] = [{} for _ in requests]
        outputs = self._model.generate(prompts, parameters, use_tqdm=False)
        for (k, _, wanted), output in zip(chunks, outputs, strict=True):
            by_token = output.outputs[0].logprobs[0]
            log_probabilities[k].update((token, float(by_token[token].logprob)) for token in wanted)
        return log_probabilities

    def generate(self, prompts: Sequence[list[int]], max_tokens: int) -> list[tuple[str, int]]:
        """Generate the answer to each prompt by greedy decoding; return the texts and token counts."""
        parameters = self._vllm.SamplingParams(max_tokens=max_tokens, temperature=0.0, detokenize=False)
        outputs = self._model.generate([{"prompt_token_ids": p} for p in prompts], parameters, use_tqdm=False)
        return [self.written(list(output.outputs[0].token_ids)) for output in outputs]
