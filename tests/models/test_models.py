"""Tests with real models on the CPU: vLLM in a Ray actor under `care run`, and transformers (`make test-vllm`)."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from functools import cache

import pytest

pytest.importorskip("vllm", reason="vLLM is not here: `make test-vllm` builds an environment that has it")
pytest.importorskip("transformers")

import ray

from judges import scoring
from judges.engines.model import ModelJudgeEngine
from judges.engines.vllm import VllmBackend
from judges.items import Item, Status
from judges.prompts import find
from judges.spec import JudgeSpec, LocalModel
from tests.models import gpu_rates
from tests.models.tiny import build
from tests.support.direct_model import DirectModel
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


def spec(folder, template, **more):
    engine = {"num_gpus": 0, "dtype": "float32", "min_valid_mass": 0.0, **more}
    return JudgeSpec(
        name="tiny", scale=(0, 100), engine=LocalModel(kind="vllm", model=str(folder), template=template, **engine)
    )


@pytest.fixture(scope="session")
def loaded(model, chat_model):
    """Load the two models with vLLM in this process; the tests of `care run` load them in an actor."""
    return {folder: VllmBackend(spec(folder, "quality").engine) for folder in (model, chat_model)}


@pytest.fixture(scope="session")
def direct(model, chat_model):
    return {folder: DirectModel(spec(folder, "quality").engine) for folder in (model, chat_model)}


def by_item(judge, backend, items, engine=ModelJudgeEngine):
    """Return the scores by item id."""
    scores = engine(judge, judge.engine, find(judge.engine.template), backend).score(items)
    return {score.item_id: score for score in scores}


@pytest.mark.parametrize("template", TEMPLATES)
def test_trie_scoring_equals_brute_force(model, loaded, direct, template):
    """The expected score sums probabilities of all spellings of all answers, by one forward pass for each token."""
    backend = loaded[model]
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

    @cache
    def after(prefix):
        return direct[model].log_probabilities([*prompt, *prefix]).exp()

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


def test_tokens_of_several_digits_are_written_as_the_tokenizer_writes_them(model, direct):
    ballot = scoring.ballot(lambda t: direct[model].encode(t, special=False), "Total rating:", map(str, range(101)))
    assert len(ballot.writings["7"]) == 2  # with and without the space
    assert max(map(len, ballot.writings["100"])) >= 3
    assert len(ballot.digits) == 10


class EveryNode(ModelJudgeEngine):
    """Engine that computes all nodes of the trie."""

    _negligible = 0.0


def test_nodes_that_cannot_matter_change_no_expected_score(loaded, model):
    """The scale is 0 to 100, with a token for each digit."""
    judge = spec(model, "asset")
    every, some = (by_item(judge, loaded[model], ITEMS, engine) for engine in (EveryNode, ModelJudgeEngine))
    assert [s.score for s in some.values()] == pytest.approx([s.score for s in every.values()], abs=1e-4)


@pytest.mark.parametrize("chat", [False, True], ids=["raw", "chat"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_vllm_and_transformers_agree(model, chat_model, loaded, direct, template, chat):
    folder = chat_model if chat else model
    judge = spec(folder, template)
    ours, theirs = (by_item(judge, backend[folder], ITEMS[:8]) for backend in (loaded, direct))
    answers = find(template).answers((0, 100))
    span = max(answers.values()) - min(answers.values())
    for name, a in ours.items():
        b = theirs[name]
        assert (a.status, b.status) == (Status.OK, Status.OK)
        assert a.score == pytest.approx(b.score, abs=1e-4 * span)
        assert math.log(a.valid_mass) == pytest.approx(math.log(b.valid_mass), abs=1e-4)
        assert a.tokens_in == b.tokens_in


def test_log_probabilities_agree_within_1e4(model, loaded, direct):
    ours, theirs = loaded[model], direct[model]
    assert ours.version.startswith("vllm ")
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


def test_a_prompt_that_is_too_long_is_reported_and_not_cut(model, loaded):
    long = Item("long", "q", "word " * 5_000)
    found = by_item(spec(model, "quality"), loaded[model], [long, ITEMS[0]])
    assert (found["long"].score, found["long"].status) == (None, Status.TOO_LONG)
    assert "tokens" in found["long"].raw
    assert found["i0"].status is Status.OK


def test_scores_with_too_little_mass_or_no_number_are_missing(model, loaded):
    found = by_item(spec(model, "quality", min_valid_mass=0.9999), loaded[model], ITEMS[:2])
    assert {s.status for s in found.values()} == {Status.LOW_VALID_MASS}
    found = by_item(spec(model, "quality", profile="paper-raw"), loaded[model], ITEMS[:4])
    assert all((s.score is None) == (s.status is not Status.OK) for s in found.values())
    assert all(s.raw is not None and s.p_json is None for s in found.values())


def test_batches_do_not_change_scores(model, loaded):
    judge = spec(model, "quality")
    whole = by_item(judge, loaded[model], ITEMS)
    for item in ITEMS[::5]:
        (single,) = by_item(judge, loaded[model], [item]).values()
        assert single.score == pytest.approx(whole[item.item_id].score, abs=1e-4)


def test_care_run_drives_it(tmp_path, model, chat_model):
    for name in ("judges", "testsets"):
        (tmp_path / name).mkdir()
    write_items(tmp_path, 60)
    (tmp_path / "care.yaml").write_text("panel: {admit: all}\nfit: {resamples: 0, aggregators: [avg, uws]}\n")
    (tmp_path / "testsets" / "one.yaml").write_text(
        "source:\n  kind: files\n  items: one.csv\n  columns: {prompt: question, response: answer, gold: label}\n"
        "scale: [0, 10]\nprompt: answer_rating\n"
    )
    for name, folder in (("big", model), ("chatty", chat_model)):
        (tmp_path / "judges" / f"{name}.yaml").write_text(
            f"family: tiny\nengine:\n  kind: vllm\n  model: {folder}\n  num_gpus: 0\n  dtype: float32\n"
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
    assert counts == {"big": 60, "chatty": 60, "length": 60}


def test_rates_are_measured_on_the_cpu_as_on_a_gpu(model, capsys):
    """All measurements of test_gpu run with a tiny model; their figures have no meaning here."""
    setup = gpu_rates.Setup(model, 10**6, gpus=0, dtype="float32", batches=12, batch_size=8, words=50)
    peak = gpu_rates.multiplication_rate("cpu", size=256, rounds=2)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        engine_rate = gpu_rates.engine_rate(setup)
        pool = gpu_rates.pool_rate(setup, [setup.judge()])
        both = gpu_rates.pool_rate(setup, [setup.judge(name, share=0.5) for name in ("one", "other")])
    finally:
        ray.shutdown()
    with capsys.disabled():
        print(f"\npeak {peak:.1e}, engine {engine_rate:,.0f}, pool {pool:,.0f}, two side by side {both:,.0f} tokens/s")
    assert min(peak, pool, both, engine_rate) > 0
