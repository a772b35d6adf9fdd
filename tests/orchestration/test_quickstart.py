"""Tests of ``examples/quickstart``: generated files, and a simulated length bias that misleads the plain average."""

import html
import json
import re
import runpy
import shutil
from pathlib import Path

import pytest

from care_ops.results.verdict import Reason, Step, Verdict
from tests.support.workspaces import typed, typed_json

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return shutil.copytree(QUICKSTART, tmp_path_factory.mktemp("quickstart") / "tables")


def test_the_generator_reproduces_the_quickstart_files(tables):
    for path in tables.glob("*.csv"):
        path.unlink()
    runpy.run_path(str(tables / "generate.py"), run_name="__main__")
    for path in QUICKSTART.glob("*.csv"):
        assert (tables / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_fit_removes_the_planted_length_bias(tables):
    given = [tables / "scores.csv", "--items", tables / "items.csv", "--judges", tables / "judges.csv"]
    printed = typed("fit", *given, "--out", tables / "fit", "--intervals", 0)
    document = json.loads((tables / "fit" / "fit.json").read_text())
    tau = {name: found["tau"] for name, found in document["evaluation"].items()}
    assert tau["care"] > tau["avg"] + 0.03
    assert "agreement with gold (Kendall's tau): care 0.8" in printed


def test_repeated_runs_give_pass_k_and_the_noise_of_judges(tables):
    """The simulated pass rates are .43 and .69; those of two passes on one question are lower."""
    given = (tables / "scores.csv", "--items", tables / "items.csv", "--system", "system")
    given = (*given, "--labels", tables / "labels.csv", "--pass-k")
    once, twice = (typed_json("rate", *given, k) for k in (1, 2))
    assert [row["system"] for row in once] == [row["system"] for row in twice] == ["v2", "v1"]
    for one, both in zip(once, twice, strict=True):
        assert both["value"] < one["value"]
        assert (one["items"], both["items"], both["labels"]) == (100, 50, 12)
    assert once[0]["judge noise"] is None
    assert 0 < once[1]["judge noise"] < 0.3
    (row,) = typed_json("gate", given[0], "v2", "--against", "v1", *given[1:], 2, code=4)
    assert row["outcome"] == "undecided"
    assert row["judge noise"] == once[1]["judge noise"]


def _words(text):
    """Return text without markup, code marks and line breaks."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", re.sub("</?code>", "", text))).replace("`", "").split())


@pytest.fixture(scope="module")
def first_screens(tables):
    """Return terminal output, page, JSON and Python result of a fit, with and without labels."""
    screens = {}
    for labels in ((), ("--labels", str(tables / "labels.csv"))):
        out = tables / f"screens{len(labels)}"
        given = [tables / "scores.csv", "--items", tables / "items.csv", "--judges", tables / "judges.csv"]
        printed = typed("fit", *given, "--out", out, "--intervals", 0, *labels)
        document = json.loads((out / "fit.json").read_text())["verdict"]
        page = (out / "report.html").read_text()
        headline = document.pop("headline")
        verdict = Verdict(
            **{
                **document,
                "reasons": tuple(Reason(**each) for each in document["reasons"]),
                "next_steps": tuple(Step(**each) for each in document["next_steps"]),
            }
        )
        first_page = page[: page.index("<!-- end of why -->")]
        texts = printed, first_page, json.dumps([headline, document]), str(verdict)
        screens[bool(labels)] = [_words(each) for each in texts]
    return screens


@pytest.mark.parametrize(
    ("question", "labels", "answer"),
    [
        ("can I use this?", False, "Use these scores only if the number of words is not part of quality."),
        ("can I use this with my labels?", True, "ranks the items at least as well as the plain average."),
        ("how many judges is this worth?", False, "This panel is worth about 2.0 independent judges (of 8)."),
        ("may a judge gate?", False, "Is the panel or a judge good enough to approve releases? Not known yet:"),
        ("how do I find out whether it may gate?", False, "run care judges report "),
        ("what has CARE changed?", False, "Some judges reward the number of words; CARE has removed that effect"),
        ("does it differ from the average?", False, "of the top 20 items would not be in the top 20 by the plain"),
        ("where are the scores?", False, "If the number of words is not part of quality, use the scores: the column"),
        ("what do I do now?", False, "then fit again with the labels."),
        ("do my labels agree?", True, "48 labels leave the estimate nearly unchanged."),
    ],
)
def test_every_first_screen_gives_the_same_answers(first_screens, question, labels, answer):
    for place, text in zip(("terminal", "page", "JSON", "Python"), first_screens[labels], strict=True):
        assert answer in text, f"{question} ({place})"


def test_a_fit_with_too_few_labels_asks_for_more(tables):
    few = tables / "few.csv"
    few.write_text("".join((tables / "labels.csv").read_text().splitlines(keepends=True)[:6]))
    given = [tables / "scores.csv", "--items", tables / "items.csv", "--labels", few, "--intervals", 0]
    printed = typed("fit", *given, "--out", tables / "few")
    assert "for about twenty more items" in _words(printed)
