"""The second and third generated corpora and the table of declared probes, which later studies count over."""

import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support import elements
from tests.support.declared_probes import ABSENT, DECLARED, DRESSES, SPOILS, SWAP
from tests.support.procedures import STEPS_A_PROCEDURE, ProceduresConfig, generate

TEXTS = {"response", "response_1", "simplification", "text"}
"""Columns that hold what a judge reads."""


def test_the_corpus_is_the_same_each_time_and_gold_is_what_it_says():
    items = generate(ProceduresConfig())
    assert items == generate(ProceduresConfig())
    assert len({item.item_id for item in items}) == len(items) == 360
    for item in items:
        expected = 10 * item.metadata["right"] / STEPS_A_PROCEDURE * (0.5 + 0.5 * item.metadata["in_order"])
        assert item.gold == pytest.approx(expected, abs=1e-5)
    whole = max(items, key=lambda item: item.gold)
    assert whole.metadata["right"] >= 5
    assert sum(step in whole.response for step in whole.reference.split(". ")[1:-1]) >= 2


@pytest.mark.parametrize("style", ["hedges", "compliment", "headings", "exclamations", "summary"])
def test_styles_say_nothing_of_quality(style):
    items = generate(ProceduresConfig(answers=60))
    value = np.array([float(item.metadata[style]) for item in items])
    gold = np.array([item.gold for item in items])
    assert abs(np.corrcoef(value, gold)[0, 1]) < 4 / np.sqrt(len(items))


def test_the_third_corpus_is_the_same_each_time_and_its_gold_is_what_the_texts_say():
    items = elements.generate(elements.ElementsConfig())
    assert items == elements.generate(elements.ElementsConfig())
    assert len({item.item_id for item in items}) == len(items) == 360
    for item in items:
        facts = zip(elements.ELEMENTS[item.split_unit], elements.WORTH, strict=True)
        found = sum(worth for fact, worth in facts if re.search(rf"\W{re.escape(str(fact))}(?!\w)", item.response))
        assert item.gold == pytest.approx(item.metadata["credit"], abs=1e-5)  # the worth of all facts is ten
        assert item.gold <= found + elements.NEARLY * (sum(elements.WORTH) - found)
    assert {item.gold for item in items} >= {0.0, 10.0}


@pytest.mark.parametrize("style", ["anecdotes", "ponderous", "echo", "asks", "table"])
def test_styles_of_the_third_corpus_say_nothing_of_quality(style):
    items = elements.generate(elements.ElementsConfig(answers=60))
    value = np.array([float(item.metadata[style]) for item in items])
    gold = np.array([item.gold for item in items])
    assert abs(np.corrcoef(value, gold)[0, 1]) < 4 / np.sqrt(len(items))


def test_kinds_are_of_the_list_and_each_declaration_has_a_reason():
    for declaration in DECLARED.values():
        assert set(declaration.dresses) <= {*DRESSES, SWAP}
        assert set(declaration.spoils) <= set(SPOILS)
        assert len(declaration.why) > 60


@pytest.mark.data
def test_every_recorded_set_is_declared_or_absent_for_the_reason_given(data_dir):
    for path in sorted(data_dir.glob("*/items.parquet")):
        table = pq.read_table(path)
        has_texts = bool(TEXTS & set(table.column_names))
        has_gold = table.column("gold").null_count < table.num_rows
        assert (path.parent.name in DECLARED) == (has_texts and has_gold), path.parent.name
        assert (path.parent.name in ABSENT) == (not has_texts or not has_gold)
