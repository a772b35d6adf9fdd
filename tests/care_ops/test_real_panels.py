"""Recorded panels: without labels `care` is never worse than the plain average, and its verdict means something."""

import itertools

import numpy as np
import pytest

from care_ops.aggregators.label_free import label_free
from care_ops.config import FitConfig
from care_ops.fit import problem_of
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


def test_judges_of_a_view_have_declared_families(data_dir):
    by_name = {view.name: view for view in views(data_dir)}
    families = by_name["llmbar 36"].scores.families
    assert set(families.values()) == {"GPT-4", "ChatGPT", "LLaMA2", "PaLM2", "Falcon"}
    assert len(by_name["llmbar 36"].scores.judges) == 36
    assert not np.isnan(by_name["frank"].gold).any()
