"""Recorded panels: without labels `care` is never worse than the plain average, and its verdict means something."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from assets.experiments.adversarial_answers import decisions, planted
from assets.experiments.panels import ExperimentPanel
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
    """Planted judges, by number as a share of the recorded ones, on every recorded panel whose gold has two values."""
    rates = {}
    for view in (view for view in views(data_dir) if view.binary):
        low, high = np.nanmin(view.scores.values), np.nanmax(view.scores.values)
        config, judges = FitConfig(("care", "avg"), cut=float(low + high) / 2), int(share * len(view.scores.judges))
        panel = ExperimentPanel(view.name, view.scores, view.gold, [], [], config)
        values, _, trigger = planted(panel, judges, 200, np.random.default_rng([judges, 51]))
        names = (*view.scores.judges, *(f"planted {k}" for k in range(judges)))
        scores = ScoreMatrix(values, tuple(f"i{k:06}" for k in range(len(values))), names, view.scores.families)
        fit = fit_panel(scores, replace(config, cut=0.5, scale=(0.0, 1.0)), solve="not")
        rates[view.name] = {name: decisions(each)[trigger >= 0].mean() for name, each in fit.aggregates.items()}
    assert len(rates) == 11
    assert not {name: rate for name, rate in rates.items() if rate["care"] > rate["avg"] + 1e-9}


def test_judges_of_a_view_have_declared_families(data_dir):
    by_name = {view.name: view for view in views(data_dir)}
    families = by_name["llmbar 36"].scores.families
    assert set(families.values()) == {"GPT-4", "ChatGPT", "LLaMA2", "PaLM2", "Falcon"}
    assert len(by_name["llmbar 36"].scores.judges) == 36
    assert not np.isnan(by_name["frank"].gold).any()
