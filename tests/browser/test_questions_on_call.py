"""Ten questions of whoever is on call, each answered in the section of a test set's page that it belongs to.

Each answer is computed here from the files and the database, not by the code that writes the page. ``docs/verdict.md``
shows the same list. The first screen answers what is asked before (``test_first_screen.py``).
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.workspaces import query

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DOCS = Path(__file__).parents[2] / "docs" / "verdict.md"
GONE = "redundancy"
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
    """A test set's page as a browser shows it, and its workspace."""

    page: Page
    workspace: Path

    def section(self, place: str) -> str:
        """What a section shows as it stands, with single spaces between words and between cells."""
        return " ".join(self.page.locator(f"#{place}").inner_text().split())

    def rows(self, sql: str) -> list[tuple]:
        return query(self.workspace, sql)


@pytest.fixture(scope="module")
def second_night(one_night, tmp_path_factory) -> Path:
    """The toy workspace after another night, without one of its judges."""
    workspace = shutil.copytree(one_night, tmp_path_factory.mktemp("second") / "ws", symlinks=True)
    (workspace / "judges" / f"{GONE}.yaml").unlink()
    command = [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(workspace)]
    subprocess.run(command, check=True, capture_output=True)
    return workspace


@pytest.fixture(scope="module")
def opened(demo, second_night, chromium) -> Iterator[Callable[[str], Reading]]:
    """``opened(place)``: the page that has this section, which is the demo's unless two nights are compared."""
    pages = {"demo": Reading(chromium.new_page(), demo), "one": Reading(chromium.new_page(), second_night)}
    for name, reading in pages.items():
        reading.page.goto((reading.workspace / "data" / "report" / f"testset-{name}.html").as_uri())
    yield lambda place: pages["one" if place == "changes" else "demo"]
    for reading in pages.values():
        reading.page.close()


def why(reading: Reading) -> list[str]:
    """The first six as they stand; the others are behind one click, with the numbers."""
    verdict = json.loads((reading.workspace / "data" / "report" / "verdicts.json").read_text())["demo"]
    sentences = [reason["sentence"] for reason in verdict["reasons"]]
    return [sentence for sentence in sentences if sentence != verdict["sentence"]][:6]


def which_fit(reading: Reading) -> list[str]:
    ((edition, made_at),) = reading.rows(
        "SELECT edition, strftime(made_at AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M') "
        "FROM published JOIN editions USING (edition)"
    )
    return [f"Fit {edition}, made {made_at}"]


def what_changed(reading: Reading) -> list[str]:
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


def whom_to_trust(reading: Reading) -> list[str]:
    """Every judge of the panel by falling weight: its place, family, weight and the ends of the interval."""
    rows = weights(reading)
    assert len(rows) > 10
    return [f"{place} {words}" for place, (_, words) in enumerate(rows, start=1)]


def which_judges_to_look_at(reading: Reading) -> list[str]:
    """Judges with a weight below zero or a note, and what the note says, once the judge's card is open."""
    noticed = reading.rows("SELECT notes FROM panels WHERE notes IS NOT NULL AND admitted")
    assert noticed
    for card in reading.page.locator("#judges details.card", has_text="Note").all():
        card.evaluate("card => card.open = true")
    heads = [words for weight, words in weights(reading) if weight < 0 or "has a note" in words]
    return [*heads, *(notes for (notes,) in noticed)]


def weights(reading: Reading) -> list[tuple[float, str]]:
    """The weight of each judge of the panel in ``care``, the largest first, and the head of its card."""
    rows = reading.rows(
        "SELECT weight, judge, family, notes, lo, hi FROM latest_fits JOIN weights USING (fit_id) "
        "JOIN judges USING (judge) JOIN panels USING (judge) WHERE aggregator = 'care' ORDER BY weight DESC"
    )
    return [
        (weight, f"{judge} family {family} {'has a note ' if notes else ''}{weight:.3f} {lo:.3f} … {hi:.3f}")
        for weight, judge, family, notes, lo, hi in rows
    ]


def what_is_shared(reading: Reading) -> list[str]:
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


def best_and_worst(reading: Reading) -> list[str]:
    """The ten best and the ten worst items with their estimates and 90 % intervals."""
    rows = reading.rows(
        "SELECT item_id, estimate, sd FROM latest_aggregates WHERE aggregator = 'care' ORDER BY estimate DESC"
    )
    numbered = list(enumerate(rows, start=1))
    return [
        f"{place}. {item} {estimate:.3f} {estimate - 1.645 * sd:.3f} … {estimate + 1.645 * sd:.3f}"
        for place, (item, estimate, sd) in numbered[:10] + numbered[-10:]
    ]


def how_much_is_missing(reading: Reading) -> list[str]:
    ((missing,),) = reading.rows(
        "SELECT avg((value IS NULL)::INT) FROM scores JOIN judges USING (judge_ix) JOIN panels p USING (judge) "
        "WHERE p.admitted"
    )
    return [f"{100 * missing:.1f} % scores missing"]


def how_right(reading: Reading) -> list[str]:
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


def what_to_label(reading: Reading) -> list[str]:
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
    "Why?": (why, "why"),
    "Which fit is this?": (which_fit, "why"),
    "Which item is best, which worst, and how sure is it?": (best_and_worst, "items"),
    "What should be labelled first?": (what_to_label, "label"),
    "Whom does the answer trust?": (whom_to_trust, "judges"),
    "Which judges need a look?": (which_judges_to_look_at, "judges"),
    "How much is missing?": (how_much_is_missing, "evidence"),
    "What do the judges share?": (what_is_shared, "shared"),
    "Is the answer right?": (how_right, "gold"),
    "What changed since the fit before?": (what_changed, "changes"),
}
"""Each question, what computes its answer, and the section of the page that has it."""


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_stands_in_its_section(opened, question):
    """What is not visible at once is behind the name of what it belongs to: a judge's card, the scores of one item."""
    answer, place = QUESTIONS[question]
    reading = opened(place)
    expected = answer(reading)
    assert expected
    section = reading.section(place)
    assert [words for words in expected if words not in section] == []


def test_the_documentation_has_the_same_list():
    rows = re.findall(r"^\| (.*?) \| `#(\w+)`.* \|$", DOCS.read_text(), re.MULTILINE)
    assert rows == [(question, place) for question, (_, place) in QUESTIONS.items()]
