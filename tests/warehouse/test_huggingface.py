"""Data sets read by the real `datasets` library from a folder; every catalog entry against a table of its own shape."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

pytest.importorskip("datasets", reason="install the extra huggingface to read data sets")

from care_ops.errors import InputError
from judges import prompts
from warehouse import catalog
from warehouse.sources.huggingface import read_items
from warehouse.testsets import HuggingFaceSource, TestsetSpec


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


def dataset(folder, rows, split="train"):
    (folder / "set").mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "set" / f"{split}.parquet")
    return folder


def source(**more):
    return HuggingFaceSource(dataset="set", split="train", **more)


def test_rows_become_items_by_paths_and_gold_by_rule(tmp_path):
    rows = [
        {"q": f"q{k}", "talk": [{"text": "hi"}, {"text": f"a{k}"}], "votes": [str(k), "good"], "kind": k % 2}
        for k in range(6)
    ]
    spec = source(
        columns={"prompt": "q", "response": "talk[1].text", "split_unit": "q"},
        gold={"mean_of": ["votes[0]", "votes[1]"], "values": {"good": 4}},
        where={"kind": 1},
    )
    items = read_items(spec, dataset(tmp_path, rows))
    assert [(i.item_id, i.prompt, i.response, i.gold) for i in items] == [
        ("train-1", "q1", "a1", 2.5),
        ("train-3", "q3", "a3", 3.5),
        ("train-5", "q5", "a5", 4.5),
    ]
    assert read_items(source(columns={"prompt": "q"}, gold={"mean_of": ["kind"], "above": 0.5}), tmp_path)[1].gold == 1


def test_samples_are_the_same_for_the_same_seed(tmp_path):
    dataset(tmp_path, [{"t": f"text {k}"} for k in range(100)])
    one, again, other = (
        [i.item_id for i in read_items(source(columns={"response": "t"}, sample=10, seed=s), tmp_path)]
        for s in (1, 1, 2)
    )
    assert len(set(one)) == 10
    assert one == again != other


def test_pairs_are_shown_in_an_order_of_their_own(tmp_path):
    dataset(tmp_path, [{"p": "q", "good": f"good {k}", "bad": f"bad {k}"} for k in range(200)])
    items = read_items(source(columns={"prompt": "p"}, pair={"better": "good", "worse": "bad"}), tmp_path)
    assert all((i.response_2 or "").startswith("good") == (i.gold == 1) for i in items)
    assert 70 < sum(i.gold or 0 for i in items) < 130


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"columns": {"response": "gone"}}, "no 'gone' in a row; its columns are t"),
        ({"columns": {"response": "t"}, "gold": {"mean_of": ["t"]}}, "holds 'text 0', no number"),
        ({"columns": {"response": "t"}, "where": {"t": "x"}}, "no row is left"),
        ({"columns": {"response": "t"}, "split": "test"}, "split 'test': cannot be loaded"),
        ({"columns": {"response": "t", "item_id": "same"}}, "share a 'same'"),
        ({"columns": {"response": "t"}, "dataset": "somebody/set"}, "needs revision"),
        ({"columns": {"response": "t"}, "dataset": "somebody/set", "revision": "a" * 40}, "cannot be loaded"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, spec, words):
    dataset(tmp_path, [{"t": f"text {k}", "same": 1} for k in range(3)])
    with pytest.raises(InputError, match=words):
        read_items(HuggingFaceSource(**{"dataset": "set", "split": "train", **spec}), tmp_path)


@pytest.mark.parametrize("name", catalog.names())
def test_every_catalog_entry_is_valid_and_readable(name, tmp_path):
    """Against rows of the shape that the entry itself describes: names cannot be checked without the hub."""
    spec = TestsetSpec.model_validate({"name": name, **yaml.safe_load(catalog.text(name))})
    hub = spec.source
    assert isinstance(hub, HuggingFaceSource)
    assert hub.license
    assert hub.checked
    assert spec.prompt in prompts.names()
    row: dict = {}
    named = [p for k, p in hub.columns.model_dump().items() if p and k != "item_id"]
    for path in named + ([hub.pair.better, hub.pair.worse] if hub.pair else []):
        plant(row, path, f"text of {path}")
    for path in hub.gold.mean_of if hub.gold else ():
        plant(row, path, next(iter(hub.gold.values), 1) if hub.gold else 1)
    for path, value in hub.where.items():
        plant(row, path, value)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.jsonl").write_text(json.dumps(row) + "\n")
    items = read_items(hub.model_copy(update={"dataset": "set", "config": None, "split": "train"}), tmp_path)
    assert len(items) == 1
    template = prompts.find(spec.prompt)
    assert template.missing(items[0]) == []
    assert template.pairwise == (items[0].response_2 is not None)


def plant(row, path, value):
    """Put a value at a path such as a.b[1].c, making what is on the way."""
    from warehouse.sources.huggingface import _STEP

    steps = [int(place) if place else key for key, place in _STEP.findall(path)]
    here = row
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int):
            while len(here) <= step:
                here.append({} if isinstance(following, str) else "")
        if following is None:
            here[step] = value
            return
        below = [] if isinstance(following, int) else {}
        here = here.setdefault(step, below) if isinstance(step, str) else here[step]
