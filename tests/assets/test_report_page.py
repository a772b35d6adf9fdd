"""Tests of judges, items and assumptions on a report page; ``tests/browser`` tests the page in a browser."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assets.report.cards import judge_cards
from assets.report.charts import Series, line_chart, ticks
from assets.report.gather import gather
from assets.report.items import item_rows
from assets.report.page import write_page
from care_ops import samples
from orchestration.workspace import load_workspace
from tests.support.report_pages import VERDICT, report_data
from warehouse.fits import Publication


@pytest.fixture(scope="module")
def data():
    return report_data(80, 5)


def with_care(data, **changes):
    return replace(data, aggregates={**data.aggregates, "care": replace(data.aggregates["care"], **changes)})


def test_judge_cards_are_sorted_by_weight_and_judges_not_admitted_are_last(data):
    cards = judge_cards(data)
    weights = [card.weight.weight for card in cards[:-1]]
    assert weights == sorted(weights, reverse=True)
    assert [card.number for card in cards] == [1, 2, 3, 4, 5, None]
    assert cards[-1].check.judge == "constant"


def test_a_card_reports_whether_a_judge_may_gate(data):
    assert {card.gate for card in judge_cards(data)[:-1]} == {""}, "gold is 0 and 1, and judges give grades"
    judge, scores = data.scores.judges[0], data.scores.values[:, 0]
    graded = replace(data, gold=np.clip(scores + np.sin(np.arange(len(scores))) / 3, scores.min(), scores.max()))
    cards = {card.check.judge: card for card in judge_cards(graded)}
    assert cards[judge].gate.startswith(f"can {judge} approve releases? yes: weighted kappa 0.")
    assert "bias" in cards[judge].people
    elsewhere = replace(graded, gold=graded.gold / 4 + scores.min())
    assert judge not in elsewhere.gates[0], "gold reaches a third of the judge's scale"
    votes = replace(data.scores, values=(data.scores.values > 5).astype(float))
    voted = with_care(replace(data, scores=votes), estimate=votes.values.mean(axis=1))
    advice, found = voted.gates[0]["panel"]
    assert (advice.measure, found.weighted_kappa) == ("kappa", None)


def test_a_judge_that_follows_length_follows_words_everywhere(data):
    factors = replace(data.factors, features=("characters", "words"), judges={"a": (0.91, 0.9), "b": (0.9, 0.1)})
    assert [factors.followed_by(judge) for judge in "ab"] == [("words", 0.9), None]


def test_intervals_of_items_follow_from_their_standard_deviation(data):
    best = item_rows(data)[0]
    sd = data.aggregates["care"].sd[data.scores.item_ids.index(best.item_id)]
    assert (best.lo, best.hi) == pytest.approx((best.estimate - 1.645 * sd, best.estimate + 1.645 * sd))
    assert all(row.lo is None for row in item_rows(with_care(data, sd=None)))
    mean = np.nanmean(data.scores.values, axis=1)
    wide = item_rows(with_care(data, estimate=mean, sd=np.full(len(mean), 1e3)))
    grades = (np.nanmin(data.scores.values), np.nanmax(data.scores.values))
    assert {(row.lo, row.hi) for row in wide} == {grades}, "no interval goes beyond the grades"


def test_changes_are_relative_to_the_last_published_fit(workspace_after_run):
    fits = load_workspace(workspace_after_run).fits
    _, published = fits.published("one")
    kept = fits.read_fit("one", published.fits["care"])
    fits.write_fit(replace(kept, fit_id="older"))
    fits.write_fit_version(replace(published, fit_version="before", fits={"care": "older"}))
    for version in ("before", published.fit_version):
        fits.publish(Publication("one", version, "promote"))
    data = gather(load_workspace(workspace_after_run), "one")
    assert data.changes.fit_version == "before"
    assert data.made_at == published.made_at[:16].replace("T", " ")
    assert data.changes.why == ["rebuilt from the same inputs"]
    assert data.changes.moved.order == pytest.approx(1.0)
    assert len(data.changes.moved.items) == 10
    assert {move.moved for move in data.changes.moved.items} == {0.0}
    fits.fit_file("one", "older").unlink()
    data = gather(load_workspace(workspace_after_run), "one")
    assert data.changes.moved is None, "a deleted old fit stops no page"
    assert (data.changes.made_at, list(data.changes.why)) == (data.made_at, ["rebuilt from the same inputs"])


def test_axes_have_round_ticks():
    assert ticks(0.13, 0.92) == [0.2, 0.4, 0.6, 0.8]
    assert ticks(-3, 17) == [0, 5, 10, 15]


def test_a_chart_leaves_out_undefined_values_and_escapes_names():
    series = [Series("<b>", [1, 2, 3], [1.0, float("nan"), 0.0])]
    body = str(line_chart("key", "a title", "", series, "x", "y").body)
    assert body.count("<circle") == 2
    assert "<b>" not in body
    assert "nan" not in body


def test_a_page_with_many_items_states_that_it_uses_a_sample(data, tmp_path, monkeypatch):
    whole = {row.item_id: row for row in item_rows(data)}
    monkeypatch.setattr(samples, "MOST_ITEMS", 40)
    monkeypatch.setattr("assets.report.items.MOST_ROWS", 40)
    drawn = replace(data).drawn  # which another test may have drawn otherwise
    kept = set(drawn.scores.item_ids)
    assert 40 <= len(kept) < 80
    assert kept >= {*data.care.items_to_label}
    rows = [data.scores.item_ids.index(item) for item in drawn.scores.item_ids]
    data = replace(data, rivals={name: estimate[rows] for name, estimate in data.rivals.items()})
    assert np.array_equal(drawn.aggregates["care"].estimate, data.aggregates["care"].estimate[rows])
    assert np.array_equal(drawn.scores.values, data.scores.values[rows], equal_nan=True)
    assert drawn.missing_share == data.missing_share
    shown = item_rows(data)
    assert len(shown) == 40
    assert (shown[0].rank, shown[-1].rank) == (1, 80), "ranks are those among all items"
    assert all(whole[row.item_id] == row for row in shown)
    write_page(data, tmp_path / "report.html", VERDICT)
    page, items = (path.read_text() for path in (tmp_path / "report.html", tmp_path / "items.html"))
    assert f"use a sample of {len(data.drawn.scores.item_ids)}:" in page
    assert "The 40 best and worst of 80 items" in items
    assert "80 items, 5 judges" in page
