"""Prefill of an 8B-shaped random model as a share of what the chip's matrix units do; needs a CUDA GPU of 40 GB."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not here: `make test-vllm` builds an environment that has it")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU; run it on a machine that has one"),
]

PROMPTS, TOKENS = 256, 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Qwen3-8B's shape with random weights, written once for both engines."""
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    from tests.support.tiny import build

    where = tmp_path_factory.mktemp("eight")
    AutoTokenizer.from_pretrained(build(where / "tokenizer", seed=0)).save_pretrained(where)
    config = Qwen3Config(
        vocab_size=151_936,
        hidden_size=4096,
        intermediate_size=12_288,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen3ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(where, safe_serialization=True)
    parameters = sum(p.numel() for p in model.parameters())
    del model
    torch.cuda.empty_cache()
    return where, parameters


@pytest.fixture(scope="module")
def peak():
    """Measured bf16 rate of the chip, FLOP/s, by the best of twenty multiplications of 8,192 squared."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    best = float("inf")
    for _ in range(20):
        torch.cuda.synchronize()
        started = time.perf_counter()
        a @ a
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - started)
    return 2 * 8192**3 / best


@pytest.mark.parametrize("kind", ["transformers", "vllm"])
def test_prefill_is_a_fair_share_of_the_chip(folder, peak, kind):
    from judges.engines.transformers import TransformersBackend
    from judges.spec import LocalModel

    where, parameters = folder
    engine = LocalModel(kind=kind, model=str(where), dtype="bfloat16", max_length=1024)
    if kind == "vllm":
        pytest.importorskip("vllm")
        from judges.engines.vllm import VllmBackend

        backend = VllmBackend(engine)
    else:
        backend = TransformersBackend(engine)
    draw = torch.Generator().manual_seed(0)
    prompts = torch.randint(300, 1000, (PROMPTS + 16, TOKENS), generator=draw).tolist()
    wanted = tuple(range(10, 20))
    backend.next_logprobs([(p, wanted) for p in prompts[PROMPTS:]])
    started = time.perf_counter()
    backend.next_logprobs([(p, wanted) for p in prompts[:PROMPTS]])
    rate = PROMPTS * TOKENS / (time.perf_counter() - started)
    share = 2 * parameters * rate / peak
    name = torch.cuda.get_device_name()
    print(f"\n{kind} on {name}: {rate:,.0f} prompt tokens/s, {share:.0%} of {peak / 1e12:.0f} TFLOP/s measured")
    assert share > (0.3 if kind == "vllm" else 0.15)
