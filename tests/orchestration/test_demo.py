"""Tests of the demo data, and of equal results with Ray actors, Dask workers and one process."""

import numpy as np
import pytest

from assets.fit.kept import read_moments
from judges import panels, programs
from judges.items import Item
from orchestration.workspace import load_workspace
from tests.support.workspaces import QUICK, make_programs, query, ran, run, summed_by
from warehouse.sources.demo import generate

DEMO_JUDGES = panels.find("demo").programs

_DEMO = "source: {kind: demo, countries: 6}\nscale: [0, 10]\n"


@pytest.mark.slow
def test_ray_and_dask_give_the_results_of_one_process(tmp_path, monkeypatch):
    inline = make_programs(tmp_path / "inline", QUICK, _DEMO)
    spread = make_programs(
        tmp_path / "spread", f"{QUICK}judging: {{mode: ray, actors: 2}}\ndask: {{workers: 2}}\n", _DEMO
    )
    for folder, worth in ((inline, 1e9), (spread, -1.0)):
        monkeypatch.setattr("assets.workers.WORTH_S", worth)
        outcome = run(folder)
        assert not outcome.failures
        assert ran(outcome, "report_index") == ["None"]
    assert summed_by(inline) == ["this process"]
    assert summed_by(spread) == ["Dask (local cluster)"]
    every = (
        "SELECT judge, item_id, value, status FROM scores JOIN judges USING (judge_ix) "
        "JOIN items USING (item_ix) ORDER BY ALL"
    )
    rows = query(inline, every)
    assert len(rows) == 72 * len(DEMO_JUDGES)
    assert query(spread, every) == rows
    one, other = (read_moments(load_workspace(f).fit_folder("demo")) for f in (inline, spread))
    assert other.n == one.n == 72
    np.testing.assert_allclose(other.covariance(), one.covariance(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(other.mean(), one.mean(), rtol=1e-12)
    groups = np.array([0, 1, 2, 3]), np.array([4, 5, 6, 7]), np.array([8, 9, 10, 11])
    np.testing.assert_allclose(other.third_central(*groups), one.third_central(*groups), atol=1e-12)


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
