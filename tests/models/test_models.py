"""Score with real models on the CPU: vLLM in a Ray actor under `care run`, and transformers. `make test-vllm`."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys

import pytest

pytest.importorskip("vllm", reason="vLLM is not here: `make test-vllm` builds an environment that has it")
pytest.importorskip("transformers")

import ray
import torch

from judges import scoring
from judges.engines.factory import build_engine
from judges.engines.model import ModelJudgeEngine
from judges.engines.transformers import TransformersBackend
from judges.items import Item, Status
from judges.pool import Pool, PoolConfig
from judges.prompts import find
from judges.spec import JudgeSpec, LocalModel
from tests.models import gpu_rates
from tests.models.tiny import build
from tests.support.workspaces import query, write_items

ITEMS = [
    Item(
        f"i{k}", f"What is the capital of land {k % 7}?", "It is Paris. " * (k % 5 + 1), f"No, {k}.", "Paris", "meaning"
    )
    for k in range(24)
]
TEMPLATES = ["asset", "quality", "preference", "correctness"]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return build(tmp_path_factory.mktemp("tiny"), seed=0)


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory):
    return build(tmp_path_factory.mktemp("chat"), seed=1, chat=True)


def spec(folder, kind, template, **more):
    engine = {"num_gpus": 0, "dtype": "float32", "min_valid_mass": 0.0, **more}
    return JudgeSpec(
        name=f"tiny {kind}",
        scale=(0, 100),
        engine=LocalModel(kind=kind, model=str(folder), template=template, **engine),
        batch_size=8,
    )


@pytest.fixture(scope="session")
def loaded(model, chat_model):
    """vLLM with each of the two models, in this process; in an actor it is driven by `care run` below."""
    from judges.engines.vllm import VllmBackend

    return {folder: VllmBackend(spec(folder, "vllm", "quality").engine) for folder in (model, chat_model)}


def by_item(judge, items):
    """Scores by item id, from the pool."""
    found = {}
    with Pool(PoolConfig(mode="inline")) as pool:
        assert pool.run(judge, items, lambda batch, _: found.update((s.item_id, s) for s in batch)) == len(items)
    return found


@pytest.mark.parametrize("template", TEMPLATES)
def test_trie_scoring_equals_brute_force(model, template):
    """Every writing of every answer by the probability of its whole sequence, one forward pass a token."""
    backend = TransformersBackend(LocalModel(kind="transformers", model=str(model), num_gpus=0, dtype="float32"))
    form = find(template)
    answers = form.answers((0, 100))
    tail = form.prefill.rstrip()
    ballot = scoring.ballot(lambda text: backend.encode(text, special=False), tail, answers)
    prompt = backend.encode(form.render(ITEMS[0], (0, 100)) + "\n\n" + tail, special=True)
    reading = scoring.Unfolding(ballot)
    while nodes := reading.next_nodes():
        requests = [([*prompt, *node], ballot.wanted[node]) for node in nodes]
        for node, answered in zip(nodes, backend.next_logprobs(requests), strict=True):
            reading.add(node, answered)
    found = reading.probabilities()

    def next_probability(prefix):
        ids = torch.tensor([[*prompt, *prefix]])
        with torch.inference_mode():
            return torch.softmax(backend._model(ids).logits[0, -1].double(), dim=-1)

    cache = {}

    def after(prefix):
        if prefix not in cache:
            cache[prefix] = next_probability(prefix)
        return cache[prefix]

    writings = {s for sequences in ballot.writings.values() for s in sequences}
    assert all(ballot.writings.values())
    for answer, sequences in ballot.writings.items():
        total = 0.0
        for sequence in sequences:
            chance = math.prod(float(after(sequence[:d])[t]) for d, t in enumerate(sequence))
            longer = {s[len(sequence)] for s in writings if len(s) > len(sequence) and s[: len(sequence)] == sequence}
            if longer:
                chance *= 1 - sum(float(after(sequence)[t]) for t in longer | set(ballot.digits))
            total += chance
        assert found[answer] == pytest.approx(total, rel=1e-3, abs=1e-9), answer
    assert 0 < sum(found.values()) <= 1


def test_tokens_of_several_digits_are_written_as_the_tokenizer_writes_them(model):
    backend = TransformersBackend(LocalModel(kind="transformers", model=str(model), num_gpus=0))
    ballot = scoring.ballot(lambda t: backend.encode(t, special=False), "Total rating:", map(str, range(101)))
    assert len(ballot.writings["7"]) == 2  # with and without the space
    assert max(map(len, ballot.writings["100"])) >= 3
    assert len(ballot.digits) == 10


class EveryNode(ModelJudgeEngine):
    """Reads every node of the trie."""

    _negligible = 0.0


class OneByOne(TransformersBackend):
    """Reads each node in a forward pass of its own."""

    def trie_logprobs(self, prompts, wanted):
        return None


def test_expected_scores_are_equal_by_every_way(loaded, model):
    """On 0 to 100 with a token for each digit: all nodes, those that matter, and the whole trie in two passes."""
    judge = spec(model, "transformers", "asset")
    one_by_one, at_once = OneByOne(judge.engine), TransformersBackend(judge.engine)
    ways = [
        (EveryNode, one_by_one),
        (ModelJudgeEngine, one_by_one),
        (ModelJudgeEngine, at_once),
        (EveryNode, loaded[model]),
        (ModelJudgeEngine, loaded[model]),
    ]
    first, *others = (
        [score.score for score in engine(judge, judge.engine, find("asset"), backend).score(ITEMS)]
        for engine, backend in ways
    )
    for scores in others:
        assert scores == pytest.approx(first, abs=1e-4)


@pytest.mark.parametrize("chat", [False, True], ids=["raw", "chat"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_vllm_and_transformers_agree(model, chat_model, loaded, template, chat):
    folder = chat_model if chat else model
    ours = by_item(spec(folder, "transformers", template), ITEMS)
    judge = spec(folder, "vllm", template)
    theirs = ModelJudgeEngine(judge, judge.engine, find(template), loaded[folder]).score(ITEMS)
    answers = find(template).answers((0, 100))
    span = max(answers.values()) - min(answers.values())
    for a in theirs:
        b = ours[a.item_id]
        assert (a.status, b.status) == (Status.OK, Status.OK)
        assert a.score == pytest.approx(b.score, abs=1e-4 * span)
        assert math.log(a.valid_mass) == pytest.approx(math.log(b.valid_mass), abs=1e-4)
        assert a.tokens_in == b.tokens_in


def test_log_probabilities_agree_within_1e4(model, loaded):
    ours, theirs = TransformersBackend(spec(model, "transformers", "quality").engine), loaded[model]
    assert theirs.version.startswith("vllm ")
    requests = [
        (ours.encode("Rate this: " + "word " * n, special=True), tuple(range(first, first + 300)))
        for n, first in itertools.product((1, 50, 400), (0, 500))
    ]
    worst = 0.0
    for a, b in zip(ours.next_logprobs(requests), theirs.next_logprobs(requests), strict=True):
        assert set(a) == set(b)
        worst = max(worst, *(abs(a[t] - b[t]) for t in a))
    print(f"\nlargest difference in log probability: {worst:.1e}")
    assert worst < 1e-4
    prompts = [tokens for tokens, _ in requests]
    texts = [[text.strip() for text, _ in backend.generate(prompts, 8)] for backend in (ours, theirs)]
    assert texts[0] == texts[1]


def test_a_prompt_that_is_too_long_is_reported_and_not_cut(model):
    long = Item("long", "q", "word " * 5_000)
    found = by_item(spec(model, "transformers", "quality"), [long, ITEMS[0]])
    assert (found["long"].score, found["long"].status) == (None, Status.TOO_LONG)
    assert "tokens" in found["long"].raw
    assert found["i0"].status is Status.OK


def test_scores_with_too_little_mass_or_no_number_are_missing(model):
    found = by_item(spec(model, "transformers", "quality", min_valid_mass=0.9999), ITEMS[:2])
    assert {s.status for s in found.values()} == {Status.LOW_VALID_MASS}
    found = by_item(spec(model, "transformers", "quality", profile="paper-raw"), ITEMS[:4])
    assert all((s.score is None) == (s.status is not Status.OK) for s in found.values())
    assert all(s.raw is not None and s.p_json is None for s in found.values())


def test_batches_do_not_change_scores(model):
    judge = spec(model, "transformers", "quality")
    whole = by_item(judge, ITEMS)
    engine = build_engine(judge)
    for item in ITEMS[::5]:
        assert engine.score([item])[0].score == pytest.approx(whole[item.item_id].score, abs=1e-4)


def test_a_model_with_a_sliding_window_is_read_one_by_one(model, tmp_path):
    """Its cache forgets the beginning of a long prompt, so that a mask over the whole prompt would not fit it."""
    from transformers import AutoTokenizer, MistralConfig, MistralForCausalLM

    assert TransformersBackend(spec(model, "transformers", "asset").engine).trie_logprobs([[5, 6]], {(): (1,)})
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MistralConfig(vocab_size=1200, num_key_value_heads=1, head_dim=32, sliding_window=64, **small)
    MistralForCausalLM(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(model).save_pretrained(tmp_path)
    judge = spec(tmp_path, "transformers", "asset")
    assert TransformersBackend(judge.engine).trie_logprobs([[5, 6]], {(): (1,)}) is None
    assert {s.status for s in by_item(judge, ITEMS[:2]).values()} == {Status.OK}


def test_care_run_drives_it(tmp_path, model, chat_model):
    for name in ("judges", "testsets"):
        (tmp_path / name).mkdir()
    write_items(tmp_path, 60)
    (tmp_path / "care.yaml").write_text("panel: {admit: all}\nfit: {resamples: 0, aggregators: [avg, uws]}\n")
    (tmp_path / "testsets" / "one.yaml").write_text(
        "source:\n  kind: files\n  items: one.csv\n  columns: {prompt: question, response: answer, gold: label}\n"
        "scale: [0, 10]\nprompt: answer_rating\n"
    )
    for name, kind, folder in (
        ("big", "vllm", model),
        ("chatty", "vllm", chat_model),
        ("plain", "transformers", model),
    ):
        (tmp_path / "judges" / f"{name}.yaml").write_text(
            f"family: tiny\nengine:\n  kind: {kind}\n  model: {folder}\n  num_gpus: 0\n  dtype: float32\n"
            "  min_valid_mass: 0\n"
        )
    for name in ("length", "readability"):
        (tmp_path / "judges" / f"{name}.yaml").write_text(f"engine: {{kind: program, program: {name}}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(query(tmp_path, "SELECT judge, count(value) FROM scores JOIN judges USING (judge_ix) GROUP BY judge"))
    assert counts.pop("readability") > 50  # it abstains below three words
    assert counts == {"big": 60, "chatty": 60, "plain": 60, "length": 60}
    twins = query(
        tmp_path,
        "SELECT max(abs(a.value - b.value)) FROM scores a JOIN scores b USING (item_ix) "
        "JOIN judges ja ON ja.judge_ix = a.judge_ix JOIN judges jb ON jb.judge_ix = b.judge_ix "
        "WHERE ja.judge = 'big' AND jb.judge = 'plain'",
    )
    assert twins[0][0] < 1e-3


def test_rates_are_measured_on_the_cpu_as_on_a_gpu(model, capsys):
    """Every measurement of test_gpu, with the tiny model; its figures mean nothing here, so that none is asserted."""
    setup = gpu_rates.Setup(model, 10**6, gpus=0, dtype="float32", batches=12, batch_size=8, words=50)
    peak = gpu_rates.multiplication_rate("cpu", size=256, rounds=2)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        engine_rate = gpu_rates.engine_rate(setup, "transformers")
        pool = gpu_rates.pool_rate(setup, [setup.judge("transformers")])
        both = gpu_rates.pool_rate(setup, [setup.judge("transformers", name, share=0.5) for name in ("one", "other")])
    finally:
        ray.shutdown()
    with capsys.disabled():
        print(f"\npeak {peak:.1e}, engine {engine_rate:,.0f}, pool {pool:,.0f}, two side by side {both:,.0f} tokens/s")
    assert min(peak, pool, both, engine_rate) > 0
