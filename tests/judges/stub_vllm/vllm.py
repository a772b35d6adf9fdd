"""A stand-in for vLLM that sleeps instead of computing, for tests of placement and loading on declared GPUs.

Its folder is put on the path of Ray's actors. Each model that is loaded is a line in the file that VLLM_STUB_LOG names,
with the arguments, the process, and the GPUs that Ray has given to it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__version__ = "stub"


class SamplingParams(SimpleNamespace):
    """The parameters of a request."""


class _Tokenizer:
    chat_template = None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [ord(character) for character in text]


class LLM:
    """A model that takes a second to load and gives every token the same probability."""

    def __init__(self, **options: Any) -> None:
        line = {**options, "pid": os.getpid(), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""), "at": time.time()}
        with Path(os.environ["VLLM_STUB_LOG"]).open("a") as log:
            log.write(json.dumps(line) + "\n")
        time.sleep(float(os.environ.get("VLLM_STUB_LOAD_S", "1")))
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=100_000, dtype="torch.float32"))

    def get_tokenizer(self) -> _Tokenizer:
        return _Tokenizer()

    def generate(self, prompts: Sequence[Any], parameters: Sequence[Any], *, use_tqdm: bool) -> list[Any]:
        time.sleep(float(os.environ.get("VLLM_STUB_SCORE_S", "0.01")))
        once = os.environ.get("VLLM_STUB_DIES_AT")
        if once and not Path(once).exists():
            Path(once).touch()
            os._exit(9)
        return [_output(one.logprob_token_ids) for one in parameters]


def _output(tokens: Sequence[int]) -> Any:
    logprobs = {token: SimpleNamespace(logprob=-2.5) for token in tokens}
    return SimpleNamespace(outputs=[SimpleNamespace(logprobs=[logprobs], token_ids=[])])
