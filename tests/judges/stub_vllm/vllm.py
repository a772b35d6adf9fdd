"""Stand-in for vLLM that sleeps instead of computing, for tests of placement and loading on declared GPUs.

Its folder is on the path of Ray's actors. For each loaded model, it writes a line with the arguments, the process and
the process's GPUs to the file in VLLM_STUB_LOG.
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
    """Parameters of a request."""


class _Tokenizer:
    chat_template = None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [ord(character) for character in text]


class LLM:
    """Model that takes a second to load and gives all tokens the same probability."""

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
