"""Tests of the pool: equal questions, engines that die, and machines without a GPU."""

import subprocess
import sys

import pytest

from care_ops.errors import JudgeError
from judges.items import Item, Score
from judges.pool import Pool, PoolConfig, Progress
from judges.programs import registry
from judges.programs.registry import program_judge
from judges.spec import JudgeSpec, LocalModel, ProgramEngine
from tests.support.judging import run_judge
from tests.support.workspaces import make, ran, run, score_rows


@pytest.fixture
def asked(monkeypatch):
    """Create a program that records the items that it scores."""
    registry.names()  # the built-in ones register once in a process
    monkeypatch.setattr(registry, "_PROGRAMS", dict(registry._PROGRAMS))
    seen: list[str] = []

    @program_judge("test_remembers", family="test", criterion="none")
    def test_remembers(item: Item) -> float | None:
        """Remember."""
        seen.append(item.item_id)
        return float(len(item.response or "") % 10)

    return seen


def test_equal_texts_are_one_question(asked):
    items = [Item(f"i{k}", "q", f"answer {k % 4}", aspect="meaning" if k % 2 else None) for k in range(40)]
    scores: list[Score] = []
    reported: list[Progress] = []
    judge = JudgeSpec(name="j", engine=ProgramEngine(program="test_remembers"), batch_size=3)
    with Pool(PoolConfig()) as pool:
        done = run_judge(pool, judge, items, lambda batch, _: scores.extend(batch), progress=reported.append)
    assert done == 40
    assert len(asked) == 4
    assert sorted(s.item_id for s in scores) == sorted(i.item_id for i in items)
    assert {s.item_key for s in scores} == {i.key for i in items}
    assert (reported[-1].done, reported[-1].total) == (40, 40)
    assert "40 of 40 items" in str(reported[-1])


def test_an_aspect_makes_another_question():
    one, other = Item("a", "q", "r", aspect="meaning"), Item("b", "q", "r", aspect="fluency")
    assert one.text_key != other.text_key
    assert one.text_key == Item("c", "q", "r", aspect="meaning").text_key


@pytest.mark.slow
def test_a_missing_gpu_is_reported_at_once(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    engine = LocalModel(kind="vllm", model=str(tmp_path), template="quality", num_gpus=64)
    with Pool(PoolConfig()) as pool, pytest.raises(JudgeError, match="needs 64 GPU"):
        run_judge(pool, JudgeSpec(name="big", engine=engine), [Item("a", "q", "r")], lambda *_: None)


def test_a_repository_without_a_commit_is_refused():
    engine = LocalModel(kind="vllm", model="somebody/model", template="quality", num_gpus=0)
    with Pool(PoolConfig(mode="inline")) as pool, pytest.raises(JudgeError, match="add revision: COMMIT"):
        run_judge(pool, JudgeSpec(name="j", engine=engine), [Item("a", "q", "r")], lambda *_: None)


def test_a_dead_engine_ends_its_process():
    """Otherwise Ray would send further batches to the process, and all would fail."""
    code = (
        "from judges.actors import Task, Worker\n"
        "from judges.engines.base import Context\n"
        "from judges.spec import JudgeSpec, ProgramEngine\n"
        "class EngineDeadError(Exception): pass\n"
        "class Engine:\n"
        "    version = 'x'\n"
        "    def score(self, items): raise EngineDeadError('dead')\n"
        "task = Task(1, JudgeSpec(name='j', engine=ProgramEngine(program='length')), Context())\n"
        "worker = Worker()\n"
        "worker._engines = {1: Engine()}\n"
        "worker.score(task, [])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 13


@pytest.mark.slow
def test_parallel_judges_give_the_same_scores_as_sequential_ones(tmp_path):
    rows = {}
    for name, care in (("one", ""), ("many", "judging: {side_by_side: 3}\n")):
        outcome = run(make(tmp_path / name, care="fit: {resamples: 0}\n" + care))
        assert not outcome.failures
        assert len(ran(outcome, "judge_inference")) == 5
        rows[name] = sorted(row[1:] for row in score_rows(tmp_path / name))
    assert rows["one"] == rows["many"]
