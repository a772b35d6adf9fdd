"""Tests on recorded panels: `care` is never worse than the plain average without labels, and verdicts are right."""

import itertools

import numpy as np
import pytest

from care_ops.aggregators.label_free import label_free
from care_ops.config import FitConfig
from care_ops.fit import fit_panel, problem_of
from care_ops.scores import ScoreMatrix
from tests.support.panels import NEARLY_BEST, PANELS, WORST, panels, supervised, views

pytestmark = [pytest.mark.data]


def test_no_recorded_panel_loses_to_the_plain_average_and_the_state_means_something(data_dir, monkeypatch):
    monkeypatch.setenv("CARE_DATA_DIR", str(data_dir))
    gains, near, usable = [], 0, 0
    for panel in panels():
        for families, texts in itertools.product((False, True), (False, True)):
            scores = panel.scores(families=families, texts=texts)
            found = label_free(problem_of(scores, FitConfig(aggregators=("care",))))
            place = {item: k for k, item in enumerate(scores.canonical().item_ids)}
            gains.append(panel.gain(found.latent[[place[item] for item in scores.item_ids]]))
            assert gains[-1] >= WORST, (panel.name, families, texts)
            if "adversarial" in panel.name:
                assert found.concerns[0] == "two groups", panel.name
        if supervised(panel.view) - panel.view.measure(panel.plain) <= NEARLY_BEST:
            near += 1
            usable += not {"two groups", "alternatives", "opposed", "no common signal"} & {*found.concerns}
    assert len(gains) == 4 * len(PANELS)
    assert np.mean(gains) > 0
    assert usable >= 0.7 * near


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_care_accepts_no_more_attacked_answers_than_the_plain_average(data_dir, share):
    """Simulated judges, right at .85 elsewhere, accept misleading openings at rising rates, half of them together."""
    rates = {}
    for view in (view for view in views(data_dir) if view.binary):
        judges = int(share * len(view.scores.judges))
        rng, known = np.random.default_rng([judges, 51]), ~np.isnan(view.gold)
        values, right = view.scores.values[known], view.gold[known] > 0.5
        cut = (np.nanmin(view.scores.values) + np.nanmax(view.scores.values)) / 2
        recorded = np.where(np.isnan(values), np.nan, values > cut)
        rows = [np.hstack([recorded, (rng.random((len(right), judges)) < 0.85) == right[:, None]])]
        for rate in (0.1, 0.25, 0.4, 0.55, 0.7, 0.85):
            together, own, shared = rng.random(200) < 0.5, rng.random((200, judges)) < rate, rng.random(200) < rate
            fooled = np.where(together[:, None], shared[:, None], own)
            rows.append(np.hstack([recorded[rng.choice(np.flatnonzero(~right), 200)], fooled]))
        names = (*view.scores.judges, *(f"planted {k}" for k in range(judges)))
        ids = tuple(f"i{k:06}" for k in range(sum(map(len, rows))))
        scores = ScoreMatrix(np.vstack(rows), ids, names, view.scores.families)
        fits = fit_panel(scores, FitConfig(("care", "avg"), cut=0.5, scale=(0.0, 1.0)), solve="not").aggregates
        rates[view.name] = {name: np.mean((each.estimate > each.threshold)[-1200:]) for name, each in fits.items()}
    assert len(rates) == 11
    assert not {name: rate for name, rate in rates.items() if rate["care"] > rate["avg"] + 1e-9}


def test_judges_of_a_view_have_declared_families(data_dir):
    by_name = {view.name: view for view in views(data_dir)}
    families = by_name["llmbar 36"].scores.families
    assert set(families.values()) == {"GPT-4", "ChatGPT", "LLaMA2", "PaLM2", "Falcon"}
    assert len(by_name["llmbar 36"].scores.judges) == 36
    assert not np.isnan(by_name["frank"].gold).any()
