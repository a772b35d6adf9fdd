"""Tests of the table of items to label, which never loses a person's labels."""

import csv
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assets.labels import read_labels
from assets.report.to_label import leave_out, write_items_to_label
from care_ops.fit_labels import NO_LABELS, FitLabels
from warehouse.items import ItemRecord
from warehouse.sources.delimited import MISSING, allow_long_fields
from warehouse.sources.files import read_items
from warehouse.spreadsheets import as_meant

ITEMS = {"a": "chosen", "b": "chosen", "c": "random"}


def labels_in(path) -> dict[str, str]:
    with path.open(encoding="utf-8", newline="") as file:
        return {row["item_id"]: row["label"] for row in csv.DictReader(file)}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_filled_rows_stay_in_a_file_with_a_byte_order_mark(tmp_path, encoding):
    path = tmp_path / "to_label.csv"
    path.write_text("item_id,label\nb,1\nz,0\n", encoding=encoding)
    write_items_to_label(path, ITEMS, {}, FitLabels({"c": 1.0}, sample={}))
    assert labels_in(path) == {"c": "1", "b": "1", "z": "0", "a": ""}
    leave_out(path, ["z"])
    assert labels_in(path) == {"c": "1", "b": "1", "a": ""}


def test_a_binary_file_to_label_is_quarantined_and_rewritten(tmp_path):
    path = tmp_path / "to_label.csv"
    content = b"item_id,\x8flabel\nb,1\n"
    path.write_bytes(content)
    write_items_to_label(path, ITEMS, {}, NO_LABELS)
    assert labels_in(path) == {"a": "", "b": "", "c": ""}
    (aside,) = [file for file in (tmp_path / "damaged").iterdir() if file.suffix != ".why"]
    assert aside.read_bytes() == content, "nothing that a person may have filled in is lost"


@settings(deadline=None, max_examples=40)  # a loaded machine is no failure
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=3))
@example(["10%\r=cmd|' /C calc'!A0", "\0", "a\r\nb\n\rc"])
@example(["", "", "00"])
@example(["", "", "None"])
@example(["long " * 100_000, "'", '"'])
def test_tables_with_any_text_can_be_filled_in_and_read(texts):
    """A spreadsheet program may end a row at a carriage return, a line feed, or both."""
    records = {item: ItemRecord(item, response=text) for item, text in zip(ITEMS, texts, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "to_label.csv"
        write_items_to_label(path, ITEMS, records, NO_LABELS)
        allow_long_fields()
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        meant = [text.replace("\0", "\ufffd") for text in texts]
        assert [as_meant(row.get("response", "")) for row in rows] == meant
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows({**row, "label": k} for k, row in enumerate(rows))
        assert read_labels(path).values == {"a": 0, "b": 1, "c": 2}
        csv.field_size_limit(131_072)  # Python's own
        write_items_to_label(path, ITEMS, {}, NO_LABELS)
        assert labels_in(path) == {"a": "0", "b": "1", "c": "2"}
        read = [""] * 3 if set(meant) <= set(MISSING) else meant  # a column of words for "missing" is missing
        assert [record.response or "" for record in read_items(path)] == read


def test_a_folder_with_the_name_of_the_file_is_quarantined(tmp_path):
    path = tmp_path / "to_label.csv"
    path.mkdir()
    leave_out(path, ["a"])
    write_items_to_label(path, ITEMS, {}, NO_LABELS)
    assert labels_in(path) == {"a": "", "b": "", "c": ""}


def test_different_labels_in_the_file_stay_and_are_reported(tmp_path):
    path = tmp_path / "to_label.csv"
    assert write_items_to_label(path, ITEMS, {}, FitLabels({"a": 1.0, "b": 0.0}, sample={})) == ([], 0)
    assert write_items_to_label(path, ITEMS, {}, FitLabels({"a": 1.0, "b": 1.0}, sample={})) == (["b"], 0)
    assert labels_in(path) == {"a": "1", "b": "0", "c": ""}


@pytest.mark.parametrize(("label", "differing"), [("+1", []), ("1.", []), (".5", ["a"]), ("5e-1", ["a"]), ("good", [])])
def test_labels_are_compared_as_numbers(tmp_path, label, differing):
    path = tmp_path / "to_label.csv"
    path.write_text(f"item_id,label\na,{label}\n")
    assert write_items_to_label(path, ITEMS, {}, FitLabels({"a": 1.0}, sample={})) == (differing, 2)


def test_second_labels_and_other_cells_stay(tmp_path):
    path = tmp_path / "to_label.csv"
    path.write_text("item_id,label,rater,note\nb,1,ann,sure\nb,0,bob,odd\nq,good,ann,\na,,ann,later\n")
    assert write_items_to_label(path, ITEMS, {}, FitLabels({"b": 0.5, "q": 1.0}, sample={})) == ([], 1)
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(row["item_id"], row["label"], row["rater"], row["note"]) for row in csv.DictReader(file)]
    assert rows == [
        ("b", "1", "ann", "sure"),
        ("b", "0", "bob", "odd"),
        ("q", "good", "ann", ""),
        *[("a", "", "ann", "later"), ("c", "", "", "")],
    ]
