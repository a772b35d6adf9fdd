"""Tests that questions are read in ranges, and that an interrupted judge continues."""

import itertools
from types import SimpleNamespace

import pytest

from assets.judging.bill import Account
from assets.judging.judge_inference import score_pending
from assets.judging.stored_items import StoredItems
from care_ops.errors import JudgeError, WarehouseError
from judges import questions as module
from judges.items import Item, Score, Status
from judges.pool import Pool, PoolConfig
from judges.programs import registry
from judges.programs.registry import program_judge
from judges.questions import ItemsInMemory, Questions
from judges.spec import JudgeSpec, LocalModel, ProgramEngine
from orchestration.workspace import load_workspace
from tests.support.judging import run_judge
from tests.support.workspaces import make, score_rows
from warehouse.items import ItemRecord

PROGRAM = JudgeSpec(name="p", engine=ProgramEngine(program="length"), batch_size=3)
MODEL = JudgeSpec(name="m", engine=LocalModel(kind="vllm", model="somewhere", template="quality"))


class Watched(ItemsInMemory):
    """Source that records the sizes of the requested ranges of items."""

    def __init__(self, items):
        super().__init__(items)
        self.reads: list[int] = []

    def read(self, positions):
        self.reads.append(len(positions))
        return super().read(positions)


def ten(**more: str) -> list[Item]:
    return [Item(f"i{k}", "q", f"answer {k}", **more) for k in range(10)]


def test_texts_are_read_when_their_batch_comes(monkeypatch):
    monkeypatch.setattr(module, "_CHARACTERS_AT_ONCE", 4 * len("qanswer 0"))
    source = Watched(ten())
    read_by_then: list[int] = []
    with Pool(PoolConfig()) as pool:
        run_judge(pool, PROGRAM, Questions(source, PROGRAM), lambda *_: read_by_then.append(sum(source.reads)))
    assert source.reads == [4, 4, 2]
    assert read_by_then == [4, 8, 10, 10]


def test_one_text_longer_than_a_chunk_is_a_chunk(monkeypatch):
    monkeypatch.setattr(module, "_CHARACTERS_AT_ONCE", 3)
    source = Watched(ten())
    assert [item.item_id for item in Questions(source, PROGRAM)] == [f"i{k}" for k in range(10)]
    assert source.reads == [1] * 10


def test_settled_items_are_left_out_and_equal_texts_are_one_question():
    items = [Item(f"i{k}", "q", f"answer {k % 3}") for k in range(9)]
    settled = {items[0].key, items[1].key, items[4].key, items[7].key}
    questions = Questions(ItemsInMemory(items), PROGRAM, settled)
    scores = [[Score(item.item_id, item.key, 1.0, Status.OK)] for item in questions]
    assert [[s.item_id for s in questions.of_items(one)] for one in scores] == [["i2", "i5", "i8"], ["i3", "i6"]]
    assert [questions.members(item) for item in questions] == [3, 2]
    assert (questions.items, len(questions)) == (5, 2)


def test_a_program_is_asked_in_the_order_of_the_source():
    items = [Item("a", "second", "x"), Item("b", "first", "z"), Item("c", None, "y"), Item("d", "first", "a")]
    assert [item.item_id for item in Questions(ItemsInMemory(items), PROGRAM)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("common", [0, 30, 500])
def test_a_model_is_asked_about_items_that_begin_alike_one_after_the_other(common):
    """Three prompts share a prefix, and each answer has three drafts that begin alike."""
    prompts = [f"{'x' * common}{k} {'is it so? ' * 30}" for k in range(3)]
    drafts = [f"{'It is so. ' * 9}{k} {'And more. ' * 600}" for k in range(3)]
    items = [Item(f"i{k}", prompts[k % 3], f"{drafts[k // 3 % 3]}{k}") for k in range(27)]
    shown = [(item.prompt, (item.response or "")[:300]) for item in Questions(ItemsInMemory(items), MODEL)]
    assert sum(before[0] != after[0] for before, after in itertools.pairwise(shown)) == 2
    assert sum(before != after for before, after in itertools.pairwise(shown)) == 8


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """Create a workspace with stored items, and a program that fails once on a named item."""
    registry.names()  # the built-in ones register once in a process
    monkeypatch.setattr(registry, "_PROGRAMS", dict(registry._PROGRAMS))
    state = SimpleNamespace(asked=[], fails_at="i25")

    @program_judge("test_interrupted", family="test", criterion="none")
    def test_interrupted(item: Item) -> float | None:
        """Fail once."""
        if item.item_id == state.fails_at:
            state.fails_at = None
            raise KeyboardInterrupt
        state.asked.append(item.item_id)
        return float(len(item.response or ""))

    loaded = load_workspace(make(tmp_path / "w", judges=("test_interrupted",), batch_size=4))
    state.records = [ItemRecord(f"i{k}", "q", f"answer {k}") for k in range(40)]
    loaded.parts.write_items("one", state.records)
    state.workspace, state.folder = loaded, tmp_path / "w"
    return state


def judged(workspace):
    with Pool(PoolConfig()).session() as session:
        account = Account(workspace, "test_interrupted")
        return score_pending(
            workspace, "test_interrupted", lambda testset: StoredItems(workspace.parts, testset), session, account
        )


def test_an_interrupted_judge_goes_on_and_asks_about_no_stored_item_again(workspace, monkeypatch):
    monkeypatch.setattr(module, "_CHARACTERS_AT_ONCE", 100)
    with pytest.raises(KeyboardInterrupt):
        judged(workspace.workspace)
    stored = len(score_rows(workspace.folder))
    assert (stored, len(workspace.asked)) == (24, 25)
    (count,), _ = judged(workspace.workspace)
    assert (count.items, count.scored) == (40, 16)
    assert len(workspace.asked) == 25 + 16, "no more was lost than one batch"
    keys = [key for _, key, _ in score_rows(workspace.folder)]
    assert len(keys) == len(set(keys)) == 40


def test_items_that_are_replaced_while_a_judge_is_asked_are_not_taken_for_the_old_ones(workspace):
    store = workspace.workspace.parts
    source = StoredItems(store, "one")
    store.write_items("one", [*workspace.records[:5], ItemRecord("i5", "q", "another"), *workspace.records[6:]])
    assert source.read([4])[0].response == "answer 4"
    with pytest.raises(WarehouseError, match="'one' were replaced while a judge was scoring"):
        source.read([4, 5])
    store.write_items("one", workspace.records[:3])
    with pytest.raises(WarehouseError, match="changed while CARE read it"):
        source.read([4])


def test_a_batch_that_fails_leaves_what_was_stored():
    stored: list[int] = []

    def sink(batch, _):
        if len(stored) == 2:
            raise JudgeError("the disk is full")
        stored.append(len(batch))

    source = Watched(ten())
    with Pool(PoolConfig()) as pool, pytest.raises(JudgeError, match="the disk is full"):
        run_judge(pool, PROGRAM, Questions(source, PROGRAM), sink)
    assert stored == [3, 3]
