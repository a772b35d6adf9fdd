"""Tests on a GPU: scores equal those on the CPU, and rates of a random model with the shape of an 8B model.

The tests need a CUDA GPU of 80 GB, because two copies of 16 GB run together with their caches.
benchmarks/results/bench.md has the commands and explains the figures.
"""

from __future__ import annotations

from statistics import correlation

import pytest

pytest.importorskip("vllm", reason="vLLM is not here: `make test-vllm` builds an environment that has it")

from judges.engines.model import ModelJudgeEngine
from judges.prompts import find
from tests.models import gpu_rates, tiny
from tests.support.direct_model import DirectModel

torch = pytest.importorskip("torch", reason="torch is not here: `make test-vllm` builds an environment that has it")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU; run it on a machine that has one"),
]

MIN_SHARE = 0.3


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    return gpu_rates.Setup(*gpu_rates.eight_billion(tmp_path_factory.mktemp("eight")))


@pytest.fixture(scope="module")
def peak():
    rate = gpu_rates.multiplication_rate("cuda")
    torch.cuda.empty_cache()
    return rate


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Start one Ray cluster for all measurements, with the GPUs of this machine."""
    import ray

    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_scores_on_the_gpu_are_those_on_the_cpu(tmp_path):
    """Compare vLLM's scores in bfloat16 with scores by transformers in float32 on the CPU."""
    folder = tiny.build(tmp_path / "tiny", seed=0)
    setup = gpu_rates.Setup(folder, 0, batches=2, batch_size=64, words=40)
    judge = setup.judge()
    direct = ModelJudgeEngine(judge, judge.engine, find("quality"), DirectModel(judge.engine))
    on_cpu = [score.score for score in direct.score(setup.items)]
    alike = correlation(on_cpu, gpu_rates.scores(setup))
    print(f"\n{len(on_cpu)} scores, correlation with float32 on the CPU {alike:.6f}")
    assert alike > 0.99


def test_prompts_are_read_at_a_fair_share_of_the_chip_and_the_pool_adds_little(setup, peak):
    engine = gpu_rates.engine_rate(setup)
    pool = gpu_rates.pool_rate(setup, [setup.judge()])
    share = 2 * setup.parameters * engine / peak
    print(
        f"\nvLLM on {torch.cuda.get_device_name()}: {engine:,.0f} prompt tokens/s, {share:.0%} of the "
        f"{peak / 1e12:.0f} TFLOP/s measured; through the pool {pool:,.0f}, time {engine / pool:.3f} of the engine's"
    )
    assert share > MIN_SHARE
    assert engine / pool < 1.1


def test_two_judges_side_by_side_read_about_as_much_as_one(setup):
    single = gpu_rates.pool_rate(setup, [setup.judge()])
    both = gpu_rates.pool_rate(setup, [setup.judge(name, share=0.5) for name in ("one", "other")])
    print(f"\ntwo judges at half a GPU each: {both:,.0f} prompt tokens/s together, {both / single:.2f} of one")
    assert both / single > 0.7
