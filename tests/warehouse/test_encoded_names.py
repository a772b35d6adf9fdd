"""Tests that dictionary-encoded names in a file or a frame are read like plain names, in the order of rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from care_ops.errors import InputError
from warehouse.sources.files import read_scores
from warehouse.sources.input_table import InputTable
from warehouse.sources.values import identifiers


def read(column: pa.Array | pa.ChunkedArray) -> tuple[list[str], list[int]]:
    names, codes = identifiers(InputTable("a table", pa.table({"item_id": column}), "by hand"), "item_id")
    return names, codes.tolist()


def encoded(values: list[str | None], indices: list[int | None]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values, pa.string()))


def test_a_dictionary_in_another_order_with_unused_and_repeated_values():
    column = encoded(["never", "b", "a", "b"], [2, 1, 2, 3])
    assert read(column) == (["a", "b"], [0, 1, 0, 1])
    assert read(column.cast(pa.string())) == read(column)


def test_chunks_with_dictionaries_of_their_own():
    column = pa.chunked_array([encoded(["y", "x"], [1, 0]), encoded(["z", "x"], [0, 1, 0])])
    assert read(column) == (["x", "y", "z"], [0, 1, 2, 0, 2])


@pytest.mark.parametrize(
    "column", [encoded(["a"], [0, None]), encoded(["a", None], [0, 1]), encoded(["a", ""], [0, 1])]
)
def test_a_row_without_a_name_is_reported(column):
    with pytest.raises(InputError, match="item_id is empty in row 2"):
        read(column)


def test_an_empty_value_that_no_row_has_is_no_fault():
    assert read(encoded(["a", ""], [0, 0])) == (["a"], [0, 0])


def test_a_long_parquet_file_is_read_as_the_same_rows_of_text_are(tmp_path):
    rng = np.random.default_rng(0)
    order = rng.permutation(300)
    table = pa.table(
        {
            "item_id": [f"item {k // 3}" for k in order],
            "judge": [f"judge {k % 3}" for k in order],
            "score": rng.normal(size=300),
        }
    )
    pq.write_table(table, tmp_path / "long.parquet", row_group_size=70)
    from_file, from_frame = read_scores(tmp_path / "long.parquet").scores, read_scores(table).scores
    assert from_file.item_ids == from_frame.item_ids
    assert from_file.judges == from_frame.judges
    assert np.array_equal(from_file.values, from_frame.values)
