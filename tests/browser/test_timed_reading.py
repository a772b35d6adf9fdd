"""A timed reading: twelve questions of whoever is on call, answered by a page within its first 600 words.

The page is that of the demo after a second night, from which one judge was taken away. Each answer is computed here
from the files and the database, not by the code that writes the page. ``docs/verdict.md`` shows the same list.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import Page

from tests.support.workspaces import query

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WORDS = 600
DOCS = Path(__file__).parents[2] / "docs" / "verdict.md"
GONE = "readability"
"""The judge of the first night that the second one lacks."""

IN_WORDS = {
    "words": "the number of words",
    "characters": "the number of characters",
    "words_per_sentence": "the words per sentence",
    "list_items": "the number of list items",
    "numbers": "the number of figures",
    "authority_markers": "the number of citations and links",
    "emoji": "the number of emoji",
    "smog": "the reading grade (SMOG)",
}
"""The features of texts as the page names them."""


@dataclass(frozen=True)
class Reading:
    """The page as a browser shows it, its workspace, and the words that a reader sees first."""

    page: Page
    workspace: Path
    first_words: str

    @property
    def verdict(self) -> dict:
        """The record that every place shows."""
        return json.loads((self.workspace / "data" / "report" / "verdicts.json").read_text())["demo"]

    def section(self, place: str) -> str:
        """What a section shows as it stands, with single spaces between words and between cells."""
        return " ".join(self.page.locator(f"#{place}").inner_text().split())

    def rows(self, sql: str) -> list[tuple]:
        return query(self.workspace, sql)


@pytest.fixture(scope="module")
def reading(chromium, demo, tmp_path_factory) -> Iterator[Reading]:
    """The demo after a night without one of its judges: the second whole night that makes this test slow."""
    workspace = shutil.copytree(demo, tmp_path_factory.mktemp("second") / "demo", symlinks=True)
    (workspace / "judges" / f"{GONE}.yaml").unlink()
    command = [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(workspace)]
    subprocess.run(command, check=True, capture_output=True)
    page = chromium.new_page()
    page.goto((workspace / "data" / "report" / "testset-demo.html").as_uri())
    yield Reading(page, workspace, " ".join(page.locator("main").inner_text().split()[:WORDS]))
    page.close()


def numbers_can_be_used(reading: Reading) -> list[str]:
    return [reading.verdict["sentence"]]


def why(reading: Reading) -> list[str]:
    """The first six beside the sentence; the others are behind one click, with the numbers."""
    sentences = [reason["sentence"] for reason in reading.verdict["reasons"]]
    return [sentence for sentence in sentences if sentence != reading.verdict["sentence"]][:6]


def what_to_do(reading: Reading) -> list[str]:
    return [step["command"] for step in reading.verdict["next_steps"] if step["command"]]


def which_fit(reading: Reading) -> list[str]:
    ((edition, made_at),) = reading.rows(
        "SELECT edition, strftime(made_at AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M') "
        "FROM published JOIN editions USING (edition)"
    )
    return [f"{made_at}, published", f"Fit {edition}, made {made_at}"]


def what_changed(reading: Reading) -> list[str]:
    """The judge that is gone, and the item whose estimate moved most between the two nights."""
    ((moved, _),) = reading.rows(
        "WITH nights AS (SELECT edition, row_number() OVER (ORDER BY made_at) AS night FROM editions), "
        "answers AS (SELECT night, item_id, estimate FROM nights JOIN edition_fits USING (edition) "
        "JOIN aggregates USING (fit_id) JOIN items USING (item_ix) WHERE aggregator = 'care') "
        "SELECT item_id, abs(b.estimate - a.estimate) AS change FROM answers a JOIN answers b USING (item_id) "
        "WHERE a.night = 1 AND b.night = 2 ORDER BY change DESC LIMIT 1"
    )
    return [f"1 judge left: {GONE}", f"the item {moved} "]


def whom_to_trust(reading: Reading) -> list[str]:
    rows = reading.rows(
        "SELECT judge, weight FROM latest_fits JOIN weights USING (fit_id) WHERE aggregator = 'care' "
        "ORDER BY abs(weight) DESC LIMIT 3"
    )
    return [", ".join(f"{judge} {weight:.3f}" for judge, weight in rows)]


def which_judges_to_look_at(reading: Reading) -> list[str]:
    """Of each kind those that are few enough to be named."""
    against = reading.rows(
        "SELECT judge FROM latest_fits JOIN weights USING (fit_id) WHERE aggregator = 'care' AND weight < 0"
    )
    noticed = reading.rows("SELECT judge FROM panels WHERE notes IS NOT NULL AND admitted")
    assert len(against) <= 3
    assert 0 < len(noticed) <= 3
    return [judge for (judge,) in (*against, *noticed)]


def what_is_shared(reading: Reading) -> list[str]:
    """The feature of the texts that the strongest factor follows most closely."""
    path = reading.workspace / "data" / "fits" / "testset=demo" / "factors.json"
    factors = json.loads(path.read_text())
    first = factors["correlations"][0]
    nearest = max(range(len(first)), key=lambda k: abs(first[k]))
    return [f"Factor 1 follows {IN_WORDS[factors['features'][nearest]]} ({first[nearest]:+.2f})"]


def best_and_worst(reading: Reading) -> list[str]:
    rows = reading.rows(
        "SELECT item_id, estimate FROM latest_aggregates WHERE aggregator = 'care' ORDER BY estimate DESC"
    )
    return [f"{item} ({estimate:.3f})" for item, estimate in (rows[0], rows[-1])]


def how_sure(reading: Reading) -> list[str]:
    rows = reading.rows("SELECT sd FROM latest_aggregates WHERE aggregator = 'care'")
    return [f"narrower than {median(2 * 1.645 * sd for (sd,) in rows):.3f}"]


def how_right(reading: Reading) -> list[str]:
    tau = dict(reading.rows("SELECT aggregator, tau FROM latest_fits JOIN evaluations USING (fit_id)"))
    return [f"Kendall's tau is {tau['care']:.3f}", f"the mean of the judges has {tau['avg']:.3f}"]


def what_to_label(reading: Reading) -> list[str]:
    with (reading.workspace / "data" / "report" / "to_label-demo.csv").open() as file:
        first, second, third, *_ = [row["item_id"] for row in csv.DictReader(file)]
    return [f"{first}, {second}, {third}"]


def moves_in_full(reading: Reading) -> list[str]:
    """The five judges and the five items that moved most, before and now, and the judge that went."""
    moves = reading.rows(
        f"{NIGHTS}, moves AS ("
        "SELECT judge, max(weight) FILTER (night = 1) AS before, max(weight) FILTER (night = 2) AS now "
        "FROM fits_of JOIN weights USING (fit_id) GROUP BY judge) "
        "SELECT * FROM moves ORDER BY abs(coalesce(now, 0) - coalesce(before, 0)) DESC, judge LIMIT 5"
    )
    items = reading.rows(
        f"{NIGHTS}, answers AS ("
        "SELECT item_id, max(estimate) FILTER (night = 1) AS before, max(estimate) FILTER (night = 2) AS now "
        "FROM fits_of JOIN aggregates USING (fit_id) JOIN items USING (item_ix) GROUP BY item_id), "
        "scale AS (SELECT stddev_pop(before) AS spread FROM answers) "
        "SELECT item_id, before, now, (now - before) / spread FROM answers, scale "
        "ORDER BY abs(now - before) DESC, item_id LIMIT 5"
    )
    return [
        f"1 judge left: {GONE}",
        *(row_of(judge, shown(before), shown(now)) for judge, before, now in moves),
        *(row_of(item, shown(before), shown(now), f"{moved:+.2f}") for item, before, now, moved in items),
    ]


def weights_in_full(reading: Reading) -> list[str]:
    """Every judge of the panel by falling weight: its place, family, weight and the ends of the interval."""
    rows = weights(reading)
    assert len(rows) > 10
    return [f"{place} {words}" for place, (_, words) in enumerate(rows, start=1)]


def suspects_in_full(reading: Reading) -> list[str]:
    """Judges with a weight below zero, and what admission notes of a judge, once its card is open."""
    noticed = reading.rows("SELECT notes FROM panels WHERE notes IS NOT NULL AND admitted")
    for card in reading.page.locator("#judges details.card", has_text="Note").all():
        card.evaluate("card => card.open = true")
    return [*(words for weight, words in weights(reading) if weight < 0), *(notes for (notes,) in noticed)]


def weights(reading: Reading) -> list[tuple[float, str]]:
    """The weight of each judge of the panel in ``care``, the largest first, and the head of its card."""
    rows = reading.rows(
        "SELECT weight, judge, family, lo, hi FROM latest_fits JOIN weights USING (fit_id) JOIN judges USING (judge) "
        "WHERE aggregator = 'care' ORDER BY weight DESC"
    )
    return [
        (weight, f"{judge} family {family} {weight:.3f} {lo:.3f} … {hi:.3f}") for weight, judge, family, lo, hi in rows
    ]


def factors_in_full(reading: Reading) -> list[str]:
    """Each factor with the feature that it follows most closely, and its share of what judges share."""
    path = reading.workspace / "data" / "fits" / "testset=demo" / "factors.json"
    factors = json.loads(path.read_text())
    rows = []
    for number, (row, strength) in enumerate(zip(factors["correlations"], factors["factors"], strict=True), start=1):
        nearest = max(range(len(row)), key=lambda k: abs(row[k] or 0.0))
        rows.append((f"{number}", f"{IN_WORDS[factors['features'][nearest]]} ({row[nearest]:+.2f})", strength))
    assert rows
    return [
        found
        for number, feature, strength in rows
        for found in (row_of(number, feature), f"{100 * strength['mass']:.1f} %")
    ]


def ends_in_full(reading: Reading) -> list[str]:
    """The ten best and the ten worst items with their estimates and 90 % intervals."""
    rows = reading.rows(
        "SELECT item_id, estimate, sd FROM latest_aggregates WHERE aggregator = 'care' ORDER BY estimate DESC"
    )
    numbered = list(enumerate(rows, start=1))
    return [
        f"{place}. {item} {estimate:.3f} {estimate - 1.645 * sd:.3f} … {estimate + 1.645 * sd:.3f}"
        for place, (item, estimate, sd) in numbered[:10] + numbered[-10:]
    ]


def metrics_in_full(reading: Reading) -> list[str]:
    """Items, labels used and Kendall's tau of every aggregate."""
    rows = reading.rows(
        "SELECT aggregator, n, e.labels_used, tau FROM latest_fits JOIN evaluations e USING (fit_id) "
        "WHERE aggregator <> 'care'"
    )
    ((n, labels, tau),) = reading.rows(
        "SELECT n, e.labels_used, tau FROM latest_fits JOIN evaluations e USING (fit_id) WHERE aggregator = 'care'"
    )
    assert rows
    return [
        row_of("care recommended", f"{n:,}", f"{labels}", f"{tau:.3f}"),
        *(row_of(name, f"{n:,}", f"{labels}", f"{tau:.3f}") for name, n, labels, tau in rows),
    ]


def to_label_in_full(reading: Reading) -> list[str]:
    """The items that head the file of items to label, and the scores that judges gave the first of them."""
    with (reading.workspace / "data" / "report" / "to_label-demo.csv").open() as file:
        items = [row["item_id"] for row in csv.DictReader(file)][:10]
    section = reading.page.locator("#label")
    assert section.locator("tr > td.id").all_inner_texts() == items
    section.locator("details").first.evaluate("details => details.open = true")
    scores = reading.rows(
        "SELECT judge, value FROM scores JOIN items USING (item_ix) JOIN judges USING (judge_ix) "
        f"JOIN panels p USING (judge) WHERE item_id = '{items[0]}' AND p.admitted AND value IS NOT NULL"
    )
    assert len(scores) > 10
    return [
        f"{judge} {value:,.0f}" if value >= 10 and value.is_integer() else f"{judge} {value:.3g}"
        for judge, value in scores
    ]


def shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def row_of(*cells: str) -> str:
    """Neighbouring cells of a table as ``Reading.section`` has them."""
    return " ".join(cells)


NIGHTS = (
    "WITH nights AS (SELECT edition, row_number() OVER (ORDER BY made_at) AS night FROM editions), "
    "fits_of AS (SELECT night, fit_id FROM nights JOIN edition_fits USING (edition) WHERE aggregator = 'care')"
)
"""The two nights, and the fit of ``care`` of each."""

QUESTIONS = {
    "Can I use these numbers?": (numbers_can_be_used, "verdict"),
    "Why?": (why, "why"),
    "What do I do now?": (what_to_do, "verdict"),
    "Which fit is this, and do people read it?": (which_fit, "title"),
    "What changed since the fit before?": (what_changed, "changes"),
    "Whom does the answer trust?": (whom_to_trust, "judges"),
    "Which judges need a look?": (which_judges_to_look_at, "judges"),
    "What do the judges share?": (what_is_shared, "shared"),
    "Which item is best, which worst?": (best_and_worst, "items"),
    "How sure is the order?": (how_sure, "items"),
    "Is the answer right?": (how_right, "gold"),
    "What should be labelled first?": (what_to_label, "label"),
}
"""Each question, what computes its answer, and the section of the page that has the whole of it."""

IN_FULL = {
    "What changed since the fit before?": moves_in_full,
    "Whom does the answer trust?": weights_in_full,
    "Which judges need a look?": suspects_in_full,
    "What do the judges share?": factors_in_full,
    "Which item is best, which worst?": ends_in_full,
    "How sure is the order?": ends_in_full,
    "Is the answer right?": metrics_in_full,
    "What should be labelled first?": to_label_in_full,
}
"""What computes the whole answer to a question, as the section has it."""


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_stands_within_the_first_600_words(reading, question):
    answer, _ = QUESTIONS[question]
    expected = answer(reading)
    assert expected
    for words in expected:
        assert words in reading.first_words


def test_each_question_that_is_answered_further_down_has_its_whole_answer_there():
    assert list(IN_FULL) == [name for name, (_, place) in QUESTIONS.items() if place not in ("verdict", "why", "title")]


@pytest.mark.parametrize("question", IN_FULL)
def test_one_click_leads_to_the_whole_answer(reading, question):
    """What is not visible at once is behind the name of what it belongs to: a judge's card, the scores of one item."""
    _, place = QUESTIONS[question]
    link = reading.page.get_by_role("link", name=f"More: {question}", exact=True)
    link.click()
    assert reading.page.url.endswith(f"#{place}")
    assert reading.page.locator(f"#{place} h2").bounding_box()["y"] < 400, "the section has come to the top"
    expected = IN_FULL[question](reading)
    assert expected
    section = reading.section(place)
    assert [words for words in expected if words not in section] == []


def test_the_documentation_has_the_same_list():
    rows = re.findall(r"^\| \d+ \| (.*?) \| .*?`#?(\w+)`.* \|$", DOCS.read_text(), re.MULTILINE)
    assert rows == [(question, place) for question, (_, place) in QUESTIONS.items()]
