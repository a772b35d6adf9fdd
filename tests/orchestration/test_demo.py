"""Tests of the demo data and of its built-in programs."""

import numpy as np
import pytest

from judges import panels, programs
from judges.items import Item
from warehouse.sources.demo import generate

DEMO_JUDGES = panels.find("demo").programs


def test_the_demo_has_the_documented_items_and_gold():
    records = generate()
    assert len(records) == 360
    assert records == generate()
    assert records != generate(seed=1)
    gold = np.array([r.gold for r in records])
    assert gold.min() == 0
    assert gold.max() == 10
    for record in records:
        right, stated = record.metadata["right"], record.metadata["stated"]
        f1 = 0 if not right else 2 * (right / stated) * (right / 4) / (right / stated + right / 4)
        assert record.gold == pytest.approx(10 * f1, abs=1e-6)


def test_built_in_programs_score_the_demo_items():
    records = generate()
    gold = np.array([r.gold for r in records])
    seen = [Item(r.item_id, r.prompt, r.response, r.response_2, r.reference) for r in records]
    against = {}
    for name in DEMO_JUDGES:
        scores = [programs.find(name).function(item) for item in seen]
        assert len(set(scores)) > 3, name
        against[name] = np.corrcoef(np.array(scores, dtype=float), gold)[0, 1]
    assert against["reference_recall"] > 0.6
    assert against["length"] < 0.3
