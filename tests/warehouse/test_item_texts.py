"""Tests that texts of items read in ranges of rows equal those read at once."""

import random

import pyarrow.parquet as pq
import pytest

from care_ops.errors import WarehouseError
from warehouse import parts
from warehouse.item_texts import ItemTexts
from warehouse.items import ItemRecord
from warehouse.parts import PartStore
from warehouse.storage import DamagedError, notes_in


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Store fifty items in groups of sixteen rows."""
    monkeypatch.setattr(parts, "_ITEMS_PER_GROUP", 16)
    chance = random.Random(1)
    records = [
        ItemRecord(
            f"i{k}",
            chance.choice(["Zürich?", "Bern?", None, "Bern"]),
            f"answer {k} " * chance.randrange(1, 9),
            aspect=chance.choice([None, "meaning"]),
            gold=1.0,
            metadata={"system": "a"},
        )
        for k in range(50)
    ]
    store = PartStore(tmp_path)
    store.write_items("one", records)
    assert pq.ParquetFile(store.items_file("one")).num_row_groups == 4
    return store


def texts(records):
    return [(r.item_id, r.prompt, r.response, r.response_2, r.reference, r.aspect) for r in records]


@pytest.mark.parametrize(
    "rows", [[], [0], [49, 0], [47, 17, 33, 16, 15, 48], list(range(50)), list(range(20, 31))[::-1]]
)
def test_rows_are_read_in_the_order_that_was_asked_for(store, rows):
    every = store.read_items("one")
    assert ItemTexts(store.items_file("one")).at(rows) == texts([every[row] for row in rows])


def test_all_are_read_without_gold_and_metadata(store):
    read = list(ItemTexts(store.items_file("one")))
    assert read == texts(store.read_items("one"))


def test_rows_before_the_first_wanted_one_are_not_read(store):
    firsts = [first for first, _ in ItemTexts(store.items_file("one"))._scan(40)]
    assert firsts == [32, 48]


def test_a_damaged_group_of_rows_is_noticed_when_it_is_read(store):
    path = store.items_file("one")
    group = pq.ParquetFile(path).metadata.row_group(2)
    column = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "response")
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    assert ItemTexts(path).at([3])[0][0] == "i3"
    with pytest.raises(DamagedError, match="CARE quarantined it as"):
        ItemTexts(path).at([3, 40])
    assert notes_in(path.parent)
    with pytest.raises(WarehouseError, match="the item file does not exist"):
        ItemTexts(path).at([3])
