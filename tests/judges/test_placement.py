"""Tests that models load once for all test sets of a judge, on the GPUs of its settings."""

import pytest

from care_ops.errors import JudgeError
from judges.pool import Pool, PoolConfig
from judges.spec import JudgeSpec
from tests.judges.placement import ITEMS, declared_gpus, judge, loads_in, place


@pytest.mark.slow
def test_a_model_is_loaded_once_for_twelve_test_sets(tmp_path):
    testsets = [judge("one", tmp_path, scale=(1, 3 + k)) for k in range(12)]
    with declared_gpus(1, tmp_path / "log", load_s=0.1, score_s=0.0):
        placed = place([testsets], PoolConfig(), tmp_path / "log")
    assert len(placed.loads) == 1
    assert len(placed.scores["one"]) == 12 * len(ITEMS)


@pytest.mark.slow
def test_judges_of_one_model_that_follow_each_other_load_it_once(tmp_path):
    """Another model, or a judge that fails, frees the model."""
    first = judge("first", tmp_path)
    by_prompt = first.model_copy(
        update={"name": "by prompt", "engine": first.engine.model_copy(update={"template": "answer_rating"})}
    )
    shorter = first.model_copy(
        update={"name": "shorter", "engine": first.engine.model_copy(update={"max_length": 100})}
    )
    with declared_gpus(1, tmp_path / "log", load_s=0.1, score_s=0.0):
        one_session = [[first, by_prompt, judge("other", tmp_path), first, shorter]]
        placed = place(one_session, PoolConfig(), tmp_path / "log")
        with Pool(PoolConfig()) as pool, pool.session(1.0) as session:
            session.run(first, ITEMS, lambda batch, _: None)
            with pytest.raises(ZeroDivisionError):
                session.run(by_prompt, ITEMS, lambda batch, _: 1 / 0)
            session.run(by_prompt, ITEMS, lambda batch, _: None)
    assert [load.model for load in placed.loads] == ["first", "other", "first", "first"]
    assert len(placed.scores["first"]) == 5 * len(ITEMS)
    assert len(loads_in(tmp_path / "log")) == 4 + 2


def test_in_one_process_too_a_model_is_loaded_once(tmp_path, monkeypatch):
    from judges.engines import factory, vllm

    loaded = []

    class Counted:
        version, max_length = "counted", 10_000

        def __init__(self, engine):
            loaded.append(engine.model)

        def encode(self, text, *, special):
            return [ord(character) for character in text]

        def chat(self, text):
            return None

        def next_logprobs(self, requests):
            return [dict.fromkeys(wanted, -2.5) for _, wanted in requests]

    monkeypatch.setattr(vllm, "VllmBackend", Counted)
    placed_judges = [[judge("one", tmp_path, scale=(1, 3 + k)) for k in range(3)], [judge("other", tmp_path)]]
    models: dict = {}
    for spec in [spec for specs in placed_judges for spec in specs]:
        factory.build_engine(spec, models=models).score(ITEMS[:2])
    assert len(loaded) == 2


@pytest.mark.slow
def test_placement_of_every_kind(tmp_path):
    """There are eight small judges, one with four GPUs, two with half a GPU each, four actors, and too many."""
    eight = [[judge(f"small{k}", tmp_path)] for k in range(8)]
    with declared_gpus(8, tmp_path / "a"):
        a = place(eight, PoolConfig(), tmp_path / "a")
        wide = judge("wide", tmp_path, num_gpus=4, vllm={"max_num_seqs": 64, "pipeline_parallel_size": 2})
        b = place([[wide], *eight[:4]], PoolConfig(), tmp_path / "a")
        e = place([[judge("many", tmp_path)]], PoolConfig(actors=4), tmp_path / "a")
    assert sorted(load.gpus for load in a.loads) == [(str(k),) for k in range(8)]
    (load,) = [load for load in b.loads if load.model == "wide"]
    assert len(load.gpus) == 4
    sizes = load.options["tensor_parallel_size"], load.options["pipeline_parallel_size"], load.options["max_num_seqs"]
    assert sizes == (2, 2, 64)
    assert len({load.pid for load in e.loads if load.model == "many"}) == 4
    assert all(len(scores) == len({s.item_id for s in scores}) == 40 for scores in e.scores.values())
    with declared_gpus(1, tmp_path / "c", load_s=0.2):
        c = place([[judge(f"next{k}", tmp_path)] for k in range(3)], PoolConfig(), tmp_path / "c")
        d = place([[judge(f"half{k}", tmp_path, num_gpus=0.5)] for k in range(2)], PoolConfig(), tmp_path / "c")
        f = place([[judge("greedy", tmp_path)]], PoolConfig(actors=3), tmp_path / "c")
        with pytest.raises(JudgeError, match="needs 2 GPU"):
            place([[judge("two", tmp_path, num_gpus=2)]], PoolConfig(), tmp_path / "c")
    assert [load.gpus for load in c.loads] == [("0",)] * 3
    halves = [load for load in d.loads if load.model.startswith("half")]
    assert [load.gpus for load in halves] == [("0",)] * 2
    assert abs(halves[0].at - halves[1].at) < 10
    assert len([load for load in f.loads if load.model == "greedy"]) == 1


@pytest.mark.slow
def test_an_actor_that_dies_is_replaced_and_loads_again(tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_STUB_DIES_AT", str(tmp_path / "died"))
    with declared_gpus(1, tmp_path / "log", load_s=0.1, score_s=0.0):
        placed = place([[judge("frail", tmp_path)]], PoolConfig(), tmp_path / "log")
    assert len(placed.loads) == 2
    assert sorted(s.item_id for s in placed.scores["frail"]) == sorted(item.item_id for item in ITEMS)
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_gpus": 1.5}, "num_gpus must be a whole number or a fraction below 1, not 1.5"),
        ({"vllm": {"model": "other"}}, "model cannot be set here"),
    ],
)
def test_settings_that_vllm_cannot_follow_are_refused(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        judge("j", tmp_path, **settings)


def test_the_removed_kind_transformers_is_refused():
    with pytest.raises(ValueError, match=r"transformers no longer exists; write kind: vllm .* Ollama"):
        JudgeSpec.model_validate({"name": "j", "engine": {"kind": "transformers", "model": "a/b"}})


def test_four_gpus_are_used_and_options_count_in_the_key_where_they_change_a_score(tmp_path):
    plain = judge("j", tmp_path)
    spread = {"max_num_seqs": 8, "tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    assert judge("j", tmp_path, num_gpus=4, vllm=spread).key("r") == plain.key("r")
    assert judge("j", tmp_path, vllm={"quantization": "fp8"}).key("r") != plain.key("r")


@pytest.mark.slow
def test_two_judges_that_each_lack_a_second_gpu_do_not_deadlock(tmp_path):
    """Each of two judges with two actors may hold one of two GPUs and wait for the other."""
    pair = [[judge(f"pair{k}", tmp_path)] for k in range(2)]
    with declared_gpus(2, tmp_path / "log", load_s=0.1, score_s=0.0):
        placed = place(pair, PoolConfig(actors=2), tmp_path / "log")
    assert all(len({s.item_id for s in scores}) == len(scores) == len(ITEMS) for scores in placed.scores.values())
