"""Tests of CARE's use of vLLM against the installed release's documentation and behaviour, without a GPU."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
import urllib.request
from typing import get_args

import pytest

pytest.importorskip("vllm", reason="vLLM is not here: `make test-vllm` builds an environment that has it")

import vllm
from vllm.config.parallel import DistributedExecutorBackend
from vllm.engine.arg_utils import EngineArgs

from judges.engines.base import Context
from judges.engines.factory import build_engine
from judges.engines.vllm import VllmBackend
from judges.items import Item, Status
from judges.questions import ItemsInMemory
from judges.spec import RESERVED, SPEED_ONLY, JudgeSpec, LocalModel, OpenAIEngine
from tests.models.tiny import build
from tests.support.servers import free_port


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return build(tmp_path_factory.mktemp("tiny"), seed=0, chat=True)


def engine(model, **more):
    return LocalModel(kind="vllm", model=str(model), **{"dtype": "float32", "template": "quality", **more})


class AskedError(Exception):
    """Error that stops the loading of a model after its arguments are known."""


def arguments(monkeypatch, settings):
    """Return the arguments of a backend for ``vllm.LLM``, as parsed by vLLM's engine."""

    class Recorder:
        def __init__(self, **options):
            raise AskedError(options)

    monkeypatch.setattr(vllm, "LLM", Recorder)
    with pytest.raises(AskedError) as asked:
        VllmBackend(settings)
    (options,) = asked.value.args
    return EngineArgs(**options)


def test_every_option_that_is_named_here_is_one_of_the_installed_vllm():
    known = {field.name for field in dataclasses.fields(EngineArgs)}
    assert known >= SPEED_ONLY | RESERVED
    assert not SPEED_ONLY & RESERVED


@pytest.mark.parametrize(
    ("settings", "parallel"),
    [
        ({}, (1, 1)),
        ({"num_gpus": 2}, (2, 1)),
        ({"num_gpus": 4, "vllm": {"max_num_seqs": 64, "pipeline_parallel_size": 2}}, (2, 2)),
        ({"num_gpus": 0.5}, (1, 1)),
    ],
)
def test_a_model_is_spread_as_vllm_documents_it(monkeypatch, model, settings, parallel):
    """vLLM's configuration must have the number of workers, the backend and prefix caching."""
    given = arguments(monkeypatch, engine(model, **{"vllm": {"max_num_seqs": 64}, **settings}))
    config = given.create_engine_config()
    made = config.parallel_config
    assert (made.tensor_parallel_size, made.pipeline_parallel_size) == parallel
    assert made.world_size == parallel[0] * parallel[1]
    if made.world_size > 1:
        assert made.distributed_executor_backend == "mp"
        assert "mp" in get_args(DistributedExecutorBackend)
    assert config.cache_config.enable_prefix_caching
    assert config.cache_config.gpu_memory_utilization == pytest.approx(0.45 if settings.get("num_gpus") == 0.5 else 0.9)
    assert config.scheduler_config.max_num_seqs == 64
    assert not config.model_config.trust_remote_code


def test_the_gpus_that_ray_gives_are_those_that_vllm_sees():
    """Ray and vLLM's CUDA platform use the same environment variable."""
    from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager
    from vllm.platforms.interface import Platform

    cuda = pytest.importorskip("vllm.platforms.cuda").CudaPlatformBase
    assert issubclass(cuda, Platform)
    assert cuda.device_control_env_var == NvidiaGPUAcceleratorManager.get_visible_accelerator_ids_env_var()


def test_questions_in_our_order_are_read_from_the_prefix_cache(model):
    """vLLM counts the whole blocks that a prompt shares with prompts of earlier batches."""
    items = [Item(f"i{k}", f"What is the capital of land {k % 3}? " * 30, f"It is {k}. " * 4) for k in range(24)]
    items = [items[k] for k in ItemsInMemory(items).by_text]
    models, settings = {}, engine(model, num_gpus=0, min_valid_mass=0.0)
    judge = build_engine(JudgeSpec(name="tiny", engine=settings), Context(), models)
    loaded = models[settings.loaded]._model
    block = loaded.llm_engine.vllm_config.cache_config.block_size
    generate, batches = loaded.generate, []

    def noting(prompts, *more, **options):
        outputs = generate(prompts, *more, **options)
        batches[-1] += [
            (prompt["prompt_token_ids"], out.num_cached_tokens) for prompt, out in zip(prompts, outputs, strict=True)
        ]
        return outputs

    loaded.generate = noting
    for start in range(0, 24, 8):
        batches.append([])
        judge.score(items[start : start + 8])
    seen, found = [tokens for tokens, _ in batches[0]], []
    for batch in batches[1:]:
        for tokens, cached in batch:
            shared = max(shared_by(tokens, other) for other in seen)
            assert cached >= min(shared, len(tokens) - 1) // block * block
            found.append(cached)
        seen += [tokens for tokens, _ in batch]
    assert sum(found) > len(found) * block


def shared_by(one, other):
    """Return the number of tokens in the common prefix of two prompts."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@pytest.fixture(scope="module")
def server(model):
    """Start vLLM's server over the asynchronous engine; a model with random weights would write blanks without end."""
    port = free_port()
    words = ["--model", str(model), "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    words += ["--max-model-len", "1024", "--max-num-seqs", "8"]
    words += ["--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}']
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as process:
        address = f"http://localhost:{port}"
        try:
            until_it_answers(f"{address}/health", process)
            yield f"{address}/v1"
        finally:
            process.terminate()


def until_it_answers(url, process):
    deadline = time.monotonic() + 400.0
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5.0):
                return
        except OSError:
            assert process.poll() is None, "vLLM's server has ended"
            assert time.monotonic() < deadline
            time.sleep(0.5)


def test_vllms_own_server_answers_the_requests_of_a_judge(server, model, tmp_path):
    settings = {"base_url": server, "model": str(model), "api_key_env": None, "timeout_s": 300.0}
    items = [Item(f"i{k}", "What is it?", f"It is {k}.") for k in range(20)]
    judge = build_engine(
        JudgeSpec(name="served", engine=OpenAIEngine(template="quality", **settings)),  # type: ignore[arg-type]
        Context(tmp_path, learned=tmp_path / "learned"),
    )
    scores = judge.score(items)
    judge.close()
    assert not {score.status for score in scores} & {Status.ENGINE_ERROR, Status.TIMEOUT}, "random weights may refuse"
    assert not (tmp_path / "learned").exists(), "it refused nothing"
