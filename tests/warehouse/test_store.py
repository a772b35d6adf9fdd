"""Tests of parts, of the database built from them, and of the matrix."""

import re
import struct
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from care_ops.errors import WarehouseError
from care_ops.records import Aggregate, Evaluation, Intervals, JudgeCheck
from care_ops.results.verdict import State
from care_ops.scores import ScoreMatrix
from warehouse import panel_rows
from warehouse.artifacts import FitFolder
from warehouse.database import Warehouse
from warehouse.documents import plain
from warehouse.fit_rows import load_fits
from warehouse.fits import FitRecord, FitStore, FitVersion, FitVersionInputs, Publication
from warehouse.items import ItemRecord
from warehouse.matrix import read_flags, read_scores
from warehouse.panel_rows import LongWrite, drop_slice, replace_slice, replace_testset
from warehouse.parts import PartStore
from warehouse.storage import DamagedError, write_table

RECORDS = [ItemRecord(f"i{k}", response=f"text {k}", gold=k / 4, split_unit=f"u{k % 2}") for k in range(5)]
KEYS = [f"key{k}" for k in range(5)]


def rows(keys=range(5), score=lambda k: float(k), **more):
    return [{"item_id": f"i{k}", "item_key": f"key{k}", "score": score(k), "status": "ok", **more} for k in keys]


def load(warehouse: Warehouse, parts: PartStore, judge="a/b", key="K"):
    with warehouse.writer() as connection:
        table = parts.read_scores(judge, "set one")
        return replace_slice(connection, judge, "set one", key, table, family="f", spec_json="{}")


@pytest.fixture
def store(tmp_path):
    parts, warehouse = PartStore(tmp_path / "parts"), Warehouse(tmp_path / "care.duckdb")
    parts.write_items("set one", RECORDS)
    with warehouse.writer() as connection:
        replace_testset(connection, "set one", RECORDS, KEYS, scale=(0, 9))
    return parts, warehouse


@pytest.mark.parametrize(("rows_a_transaction", "kept"), [(1_000, []), (9, ["a", "b"]), (5, ["a", "b", "c"])])
def test_a_long_write_that_breaks_off_keeps_what_it_has_committed(store, monkeypatch, rows_a_transaction, kept):
    parts, warehouse = store
    monkeypatch.setattr(panel_rows, "ROWS_A_TRANSACTION", rows_a_transaction)
    for judge in "abc":
        parts.write_scores(judge, "set one", "K", "e", rows())
    with pytest.raises(KeyboardInterrupt), warehouse.writer() as connection:  # noqa: PT012  # it ends within the writer
        transactions = LongWrite(connection)
        for judge in "abc":
            table = parts.read_scores(judge, "set one")
            transactions.wrote(replace_slice(connection, judge, "set one", "K", table, family=None, spec_json="{}"))
        transactions.wrote(None)
        raise KeyboardInterrupt
    with warehouse.reader() as connection:
        assert [judge for (judge,) in connection.execute("SELECT judge FROM slices ORDER BY judge").fetchall()] == kept
        assert connection.execute("SELECT count(*) FROM scores").fetchall() == [(5 * len(kept),)]


def test_items_come_back_as_written(store):
    parts, _ = store
    assert parts.read_items("set one") == RECORDS
    assert parts.testsets() == ["set one"]
    texts, gold = parts.write_items("set one", RECORDS)
    assert parts.write_items("set one", list(RECORDS)) == (texts, gold)
    relabelled = [ItemRecord(r.item_id, response=r.response, gold=9.0) for r in RECORDS]
    again = parts.write_items("set one", relabelled)
    assert (again[0] == texts, again[1] == gold) == (True, False)
    with pytest.raises(WarehouseError, match="no items yet"):
        parts.read_items("other")


def test_a_batch_written_twice_is_one_part(store):
    parts, _ = store
    first = parts.write_scores("a/b", "set one", "K", "e", rows(range(3)))
    assert parts.write_scores("a/b", "set one", "K", "e", rows(range(3))) == first
    parts.write_scores("a/b", "set one", "K", "e", rows(range(3, 5)))
    assert parts.read_scores("a/b", "set one").num_rows == 5
    assert parts.done("a/b", "set one", "K") == set(KEYS)
    assert parts.done("a/b", "set one", "other key") == set()
    assert parts.judges() == ["a/b"]


@pytest.fixture
def scattered(store):
    """Create a store in which a judge has forty parts of one row under two keys, and a repeated item."""
    parts, _ = store
    for k in range(5):
        for key in ("old", "K"):
            parts.write_scores("a/b", "set one", key, "e", rows([k], score=lambda k: None, status="error", raw=f"{k}"))
            parts.write_scores("a/b", "set one", key, "e", [*rows([k]), *rows([k], raw="again")])
    return parts


def contents(parts: PartStore) -> list[str]:
    return sorted(map(repr, parts.read_scores("a/b", "set one").to_pylist()))


def test_parts_are_merged_without_loss(scattered, monkeypatch):
    monkeypatch.setattr("warehouse.parts._MANY_PARTS", 3)
    before, done = contents(scattered), scattered.done("a/b", "set one", "K", ["error"])
    assert scattered.has_many("a/b", "set one") == 20
    assert scattered.compact("a/b", "set one") == 18
    assert scattered.has_many("a/b", "set one") == 0
    assert contents(scattered) == before
    assert scattered.done("a/b", "set one", "K", ["error"]) == done == set(KEYS)
    assert scattered.compact("a/b", "set one") == 0, "a second time changes nothing"
    assert contents(scattered) == before


def test_merging_that_is_killed_loses_nothing_and_is_finished_by_the_next(scattered, monkeypatch):
    """The kills are at the first writes and deletions, in the middle, at the last one, and never."""
    before, folder = contents(scattered), scattered.scores_folder("a/b", "set one")
    done = set(KEYS)
    whole = {path.name: path.read_bytes() for path in folder.glob("*.parquet")}
    killed = []
    for killed_at in (0, 1, 2, 3, 12, 21, 22):
        for path in folder.glob("*.parquet"):
            path.unlink()
        for name, content in whole.items():
            (folder / name).write_bytes(content)
        assert scattered.done("a/b", "set one", "K", ["error"]) == done
        with monkeypatch.context() as patch:
            left = killed_at

            def step(act):
                def counted(*arguments, **options):
                    nonlocal left
                    if left == 0:
                        raise KeyboardInterrupt
                    left -= 1
                    return act(*arguments, **options)

                return counted

            patch.setattr("warehouse.parts.write_table", step(write_table))
            patch.setattr(Path, "unlink", step(Path.unlink))
            try:
                scattered.compact("a/b", "set one")
            except KeyboardInterrupt:
                killed.append(killed_at)
        assert set(contents(scattered)) == set(before)
        assert scattered.done("a/b", "set one", "K", ["error"]) == done
        scattered.compact("a/b", "set one")
        assert contents(scattered) == before
        assert scattered.done("a/b", "set one", "K", ["error"]) == done
    assert killed == [0, 1, 2, 3, 12, 21], "there are two writes and twenty deletions"


def test_leftovers_of_a_killed_run_are_swept_and_never_read(store):
    parts, _ = store
    parts.write_scores("a/b", "set one", "K", "e", rows())
    leftover = parts.scores_folder("a/b", "set one") / ".x.parquet.99.tmp"
    leftover.write_text("half")
    assert parts.read_scores("a/b", "set one").num_rows == 5
    parts.sweep("a/b")
    assert not leftover.exists()


def test_a_slice_holds_only_the_rows_under_the_current_keys(store):
    parts, warehouse = store
    parts.write_scores("a/b", "set one", "old", "e", rows(score=lambda k: 9.0))
    parts.write_scores("a/b", "set one", "K", "e", rows(range(4)))
    parts.write_scores("a/b", "set one", "K", "e", rows([4], score=lambda k: None, status="refused"))
    parts.write_scores("a/b", "set one", "K", "e", [{**rows([0])[0], "item_key": "another text"}])
    found = load(warehouse, parts)
    assert (found.n_items, found.n_ok, found.n_missing, found.statuses) == (5, 4, 0, {"ok": 4, "refused": 1})
    again = load(warehouse, parts)
    assert again == found
    with warehouse.reader() as connection:
        read = read_scores(connection, "set one")
    np.testing.assert_array_equal(read.values[:, 0], [0, 1, 2, 3, np.nan])
    assert read.families == {"a/b": "f"}


def test_the_hash_of_a_slice_depends_only_on_its_scores(tmp_path):
    """Order of rows and items, numbers and other judges do not change the hash; each score does."""
    mixed = [*rows([0, 1, 2]), *rows([3], lambda k: None, status="refused"), *rows([4], text_mismatch=True)]

    def hash_of(scored, records=RECORDS, keys=KEYS, before=()):
        other = Warehouse(tmp_path / f"{len(list(tmp_path.iterdir()))}.duckdb")
        batches = PartStore(tmp_path / other.path.stem)
        batches.write_scores("a/b", "set one", "K", "e", scored)
        with other.writer() as connection:
            replace_testset(connection, "other", before, [f"k of {record.item_id}" for record in before])
            replace_testset(connection, "set one", records, keys)
        return load(other, batches).content_hash

    plain = hash_of(mixed)
    assert hash_of(mixed[::-1], RECORDS[::-1], KEYS[::-1], before=[ItemRecord("x"), ItemRecord("y")]) == plain
    for k, change in (
        (1, {"score": -0.5}),
        (2, {"text_mismatch": True}),
        (3, {"status": "timeout"}),
        (4, {"text_mismatch": False}),
    ):
        assert hash_of([*mixed[:k], {**mixed[k], **change}, *mixed[k + 1 :]]) != plain
    assert hash_of(mixed[:4]) != plain
    renamed = [ItemRecord("i9", response="text 4"), *RECORDS[:4]]
    assert hash_of([*mixed[:4], {**mixed[4], "item_id": "i9"}], renamed, [KEYS[4], *KEYS[:4]]) != plain


def test_the_matrix_leaves_out_other_test_sets_and_judges_that_are_not_asked_for(store):
    """Numbers of two test sets alternate, because items are added to the first later."""
    parts, warehouse = store
    others = [ItemRecord(f"o{k}") for k in range(3)]
    with warehouse.writer() as connection:
        replace_testset(connection, "two", others, ["o0", "o1", "o2"])
        replace_testset(connection, "set one", [*RECORDS, ItemRecord("late")], [*KEYS, "late key"])
    late = {"item_id": "late", "item_key": "late key", "score": 6.0, "status": "ok"}
    for judge in ("a/b", "c", "d"):
        parts.write_scores(judge, "set one", "K", "e", [*rows(), late])
        load(warehouse, parts, judge)
    foreign = [{"item_id": f"o{k}", "item_key": f"o{k}", "score": 99.0, "status": "out_of_range"} for k in range(3)]
    parts.write_scores("c", "two", "K", "e", foreign)
    with warehouse.writer() as connection:
        scores = parts.read_scores("c", "two")
        replace_slice(connection, "c", "two", "K", scores, family=None, spec_json="{}")
    with warehouse.reader() as connection:
        read, flags = read_scores(connection, "set one", {"a/b", "d"}), read_flags(connection, "set one")
    assert read.judges == ("a/b", "d")
    np.testing.assert_array_equal(read.values, np.tile([[0.0], [1], [2], [3], [4], [6]], 2))
    assert flags == ({}, {})


def test_flags_reach_admission(store):
    parts, warehouse = store
    mixed = [
        {**rows([0])[0], "text_mismatch": True},
        {**rows([1])[0], "score": None, "status": "out_of_range"},
        *rows(range(2, 5)),
    ]
    parts.write_scores("a/b", "set one", "K", "e", mixed)
    load(warehouse, parts)
    with warehouse.reader() as connection:
        assert read_flags(connection, "set one") == ({"a/b": 1}, {"a/b": 1})


def test_items_keep_their_ordinals_and_gone_ones_leave(store):
    parts, warehouse = store
    parts.write_scores("a/b", "set one", "K", "e", rows())
    load(warehouse, parts)

    def ordinals():
        with warehouse.reader() as connection:
            return dict(connection.execute("SELECT item_id, item_ix FROM items").fetchall())

    before = ordinals()
    changed = [ItemRecord("new", response="n"), *RECORDS[:4][::-1]]
    with warehouse.writer() as connection:
        replace_testset(connection, "set one", changed, ["nk", *KEYS[:4][::-1]])
        left = connection.execute("SELECT count(*) FROM scores").fetchone()
    after = ordinals()
    assert left == (4,)
    assert {k: v for k, v in after.items() if k != "new"} == {k: v for k, v in before.items() if k != "i4"}
    assert after["new"] not in before.values()


def a_fit(fit_id="f", last=5.0):
    answer = Aggregate("avg", np.array([1.0, 2.0, np.nan, 4.0, last]), 4.5, weights=np.array([1.0]))
    return FitRecord(fit_id, "set one", "in", "c", tuple(r.item_id for r in RECORDS), ("a",), answer)


EVALUATION = Evaluation(n=5, accuracy=0.5)
ADMITTED = JudgeCheck("a", True, None, None, 0.0, 0.5, 1.0, None, 0)
INTERVALS = Intervals(("a",), np.array([0.5]), np.array([1.5]), np.array([[0.1, np.nan]]))


def everything(connection):
    tables = ("fits", "weights", "evaluations", "fit_versions", "fit_version_fits", "publications", "latest_aggregates")
    return {t: sorted(map(repr, connection.execute(f"SELECT * FROM {t}").fetchall())) for t in tables}


def test_the_same_fit_again_keeps_its_evaluation(store, tmp_path):
    _, warehouse = store
    kept = FitStore(tmp_path / "fits")
    kept.annotate("set one", "f", EVALUATION)
    kept.annotate("set one", "f", INTERVALS)
    kept.write_fit_version(FitVersion("e", "set one", {"avg": "f"}, FitVersionInputs()))
    for _ in range(2):
        kept.write_fit(a_fit())
        with warehouse.writer() as connection:
            load_fits(connection, kept, "set one", ["f"])
            assert connection.execute("SELECT n, accuracy FROM evaluations").fetchall() == [(5, 0.5)]
            bounds = connection.execute("SELECT weight, lo, hi, loadings_lo, loadings_hi FROM weights").fetchall()
            assert bounds == [(1.0, 0.5, 1.5, [0.1, None], None)]


def test_on_a_clock_that_was_set_back_the_latest_still_comes_last(store, tmp_path):
    _, warehouse = store
    kept = FitStore(tmp_path / "fits")
    kept.write_fit_version(FitVersion("first", "set one", {}, FitVersionInputs(), made_at="2026-11-22T10:00:00+00:00"))
    second = kept.write_fit_version(
        FitVersion("second", "set one", {}, FitVersionInputs(), made_at="2026-11-21T10:00:00+00:00")
    )
    assert kept.fit_versions("set one")[-1] == second
    kept.publish(Publication("set one", "first", "review", published_at="2026-11-22T10:00:00+00:00"))
    kept.publish(Publication("set one", "second", "review", published_at="2026-11-21T10:00:00+00:00"))
    with warehouse.writer() as connection:
        load_fits(connection, kept, "set one")
        assert connection.execute("SELECT fit_version FROM published").fetchall() == [("second",)]


def test_an_answer_counts_before_a_failure_whatever_the_clock(store, monkeypatch):
    parts, warehouse = store
    parts.write_scores("a/b", "set one", "K", "e", rows(range(5), lambda k: None, status="timeout"))
    monkeypatch.setattr("warehouse.parts.time.time", lambda: 0.0)
    parts.write_scores("a/b", "set one", "K", "e", rows(range(1)))
    assert load(warehouse, parts).statuses == {"ok": 1, "timeout": 4}


def test_what_is_published_is_what_people_read(store, tmp_path):
    _, warehouse = store
    kept = FitStore(tmp_path / "fits")
    inputs = FitVersionInputs({"a": "x"}, (ADMITTED,), 0.25, "s", "c")
    old, new = (FitVersion(f"e{k}", "set one", {"avg": fit}, inputs) for k, fit in ((1, "f"), (2, "g")))
    with warehouse.writer() as connection:
        for version, fit in ((old, a_fit()), (new, a_fit("g", last=9.0))):
            kept.write_fit(fit)
            kept.write_fit_version(version)
            load_fits(connection, kept, "set one")
    kept.annotate("set one", "f", EVALUATION)
    kept.annotate("set one", "f", INTERVALS)
    with warehouse.writer() as connection:
        load_fits(connection, kept, "set one", ["f"])

    def read():
        with warehouse.reader() as connection:
            return connection.execute("SELECT item_id, estimate FROM latest_aggregates ORDER BY item_id").fetchall()

    def publish(version):
        kept.publish(Publication("set one", version, "review"))
        with warehouse.writer() as connection:
            load_fits(connection, kept, "set one")

    assert read() == []
    assert kept.published("set one") is None
    publish("e2")
    publish("e1")
    assert read() == [("i0", 1.0), ("i1", 2.0), ("i2", None), ("i3", 4.0), ("i4", 5.0)]
    assert kept.published("set one")[1] == old
    again = kept.read_fit("set one", "g")
    assert plain(again.answer.estimate) == [1.0, 2.0, None, 4.0, 9.0]
    assert (again.weights, again.fitted_at) == ({"a": 1.0}, kept.read_fit("set one", "g").fitted_at)

    with warehouse.writer() as connection:
        live = everything(connection)
        for table in (
            "fits",
            "weights",
            "aggregates",
            "evaluations",
            "fit_versions",
            "fit_version_fits",
            "publications",
        ):
            connection.execute(f"DELETE FROM {table}")
    with warehouse.writer() as connection:
        load_fits(connection, kept, "set one")
        assert everything(connection) == live, "the files are the record"

    kept.fit_file("set one", "g").unlink()
    with pytest.raises(WarehouseError, match="care fits list"):
        kept.read_fit("set one", "g")


def test_a_failed_transaction_changes_nothing(store):
    _, warehouse = store

    def fail() -> None:
        with warehouse.writer() as connection:
            connection.execute("DELETE FROM items")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with warehouse.reader() as connection:
        assert connection.execute("SELECT count(*) FROM items").fetchone() == (5,)


def test_a_database_of_an_older_release_is_to_be_rebuilt(store):
    _, warehouse = store
    with warehouse.writer() as connection:
        connection.execute("UPDATE schema_version SET version = 0")
    assert not warehouse.usable()
    with pytest.raises(WarehouseError, match="to rebuild the database from the files"), warehouse.writer():
        pass


def test_a_database_of_a_later_duckdb_is_refused_and_not_taken_for_damaged(store):
    _, warehouse = store
    header = bytearray(warehouse.path.read_bytes())
    checksum, old = struct.unpack_from("<QQ", header)
    header[12:16] = struct.pack("<I", 99999)  # the version of DuckDB's storage
    (new,) = struct.unpack_from("<Q", header, 8)
    mixed = [word * 0xBF58476D1CE4E5B9 % 2**64 for word in (old, new)]  # DuckDB's checksum of one word
    struct.pack_into("<Q", header, 0, checksum ^ mixed[0] ^ mixed[1])
    warehouse.path.write_bytes(header)
    for _ in range(2):
        with pytest.raises(WarehouseError, match="by a release of DuckDB later than") as caught:
            warehouse.usable()
        assert not isinstance(caught.value, DamagedError)
    assert warehouse.path.read_bytes() == header


def test_missing_test_sets_are_reported(store, tmp_path):
    _, warehouse = store
    with warehouse.reader() as connection, pytest.raises(WarehouseError, match="not in the database"):
        read_scores(connection, "nowhere")
    with warehouse.reader() as connection, pytest.raises(WarehouseError, match="has no scores in the database"):
        read_scores(connection, "set one")
    with pytest.raises(WarehouseError, match="run `care run` first"), Warehouse(tmp_path / "none").reader():
        pass
    with pytest.raises(WarehouseError, match="`care run` builds it"):
        FitFolder(tmp_path, "x").read_panel()


def test_a_judge_can_be_dropped_and_its_parts_stay(store):
    parts, warehouse = store
    parts.write_scores("a/b", "set one", "K", "e", rows())
    load(warehouse, parts)
    with warehouse.writer() as connection:
        drop_slice(connection, "a/b", "set one")
        assert connection.execute("SELECT count(*) FROM scores").fetchone() == (0,)
    assert parts.read_scores("a/b", "set one").num_rows == 5


def test_the_panel_matrix_comes_back_as_written(tmp_path):
    scores = ScoreMatrix(np.array([[1.0, np.nan], [2.0, 3.0]]), ("x", "y"), ("b", "a"), {"a": "f"})
    folder = FitFolder(tmp_path, "t/1")
    folder.write_panel(scores)
    assert folder.read_panel().fingerprint() == scores.fingerprint()
    assert folder.read_panel().judges == ("b", "a")


def test_views_answer_in_words(store):
    parts, warehouse = store
    parts.write_scores("a/b", "set one", "K", "e", rows())
    load(warehouse, parts)
    with warehouse.writer() as connection:
        for view in ("latest_aggregates", "judge_card", "disagreements", "history"):
            connection.execute(f"SELECT * FROM {view}").fetchall()
        assert connection.execute("SELECT judges, lowest FROM disagreements WHERE item_id = 'i3'").fetchone() == (1, 3)


def test_items_are_ranked_by_disagreement_whatever_the_scales_of_the_judges(store):
    """Two judges on ten points differ on i1; a judge on a thousand varies most, but agrees."""
    parts, warehouse = store
    given = {"a/b": (1, 9, 5, 3, 7), "c": (1, 2, 5, 3, 7), "wide": (100, 900, 500, 300, 700)}
    for judge, scores in given.items():
        parts.write_scores(judge, "set one", "K", "e", rows(score=lambda k, of=scores: float(of[k])))
        load(warehouse, parts, judge)
    with warehouse.writer() as connection:
        found = connection.execute("SELECT item_id, lowest, highest, spread FROM disagreements ORDER BY spread DESC")
        first, second, *_ = found.fetchall()
    assert first[:3] == ("i1", 2, 900)
    assert first[3] > 2 * second[3]


def test_the_schema_names_every_state_of_a_verdict():
    written = Path(panel_rows.__file__).with_name("schema.sql").read_text()
    (listed,) = re.findall(r"States: ([^.]*)\.", written.replace("\n-- ", " "))
    assert set(listed.split(", ")) == set(get_args(State))


def test_scores_of_one_key_are_read_without_its_column_and_a_part_has_its_key(store):
    parts, _ = store
    old = parts.write_scores("a/b", "set one", "old", "e", rows(range(2)))
    new = parts.write_scores("a/b", "set one", "new", "e", rows(range(2, 5)))
    table = parts.read_scores("a/b", "set one", ["item_id", "score"], key="new")
    assert table.column_names == ["item_id", "score"]
    assert sorted(table.column("item_id").to_pylist()) == ["i2", "i3", "i4"]
    assert (parts.key_of(old), parts.key_of(new)) == ("old", "new")
    assert parts.key_of(parts.write_scores("a/b", "set one", "none", "e", [])) is None
