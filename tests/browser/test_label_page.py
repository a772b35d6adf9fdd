"""Tests of the labelling page in a browser: keys, buttons, reloads, and the downloaded file.

The tests read the page as a person does; the correct label of an item follows from its text.
"""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.support.report_pages import MODES
from tests.support.workspaces import read_table, typed_line, write_table

pytestmark = [pytest.mark.browser, pytest.mark.slow]

N, COUNT = 40, 20
NASTY = {
    "ends the script": "</script><script>window.harm = 1</script><img src=x onerror='window.harm = 2'>",
    "begins a comment": "<!-- <script> {{ 7 * 7 }} ${7 * 7} \\u003c &lt;b&gt;",
    "quotes, lines": "\"double\" 'single' `back`\n\ttabbed\n\n  spaces  \u2028 end",
    "emoji": "👩‍🔬 naïve 🇩🇪 e\u0301 שלום مرحبا 漢字",
    "long": "ten chars " * 1000,
    "one long word": "x" * 10_000,
}


def good(number):
    """Return the correct label of answer ``number``."""
    return int(number % 3 != 0)


@pytest.fixture
def folder(tmp_path):
    """Write answers of two systems, whose texts do not name the system, and scores of five judges."""
    rng = np.random.default_rng(0)
    rows = [(f"i{k:02}", f"question {k}", f"answer {k}", f"secret-model-{k % 2}") for k in range(N)]
    write_table(tmp_path / "items.csv", ("item_id", "prompt", "response", "model"), rows)
    scores = [(f"i{k:02}", *np.round(good(k) + rng.normal(size=5), 3)) for k in range(N)]
    write_table(tmp_path / "scores.csv", ("item_id", *"abcde"), scores)
    return tmp_path


def label(folder, *words, items="items.csv"):
    return typed_line("label", "--items", folder / items, "--out", folder / "labels.csv", *words)


@pytest.fixture
def opened(chromium):
    """Return ``opened(path, rater="ann", **options)``, which opens the page in a new context up to a question."""
    contexts = []

    def open_(path, rater="ann", **options):
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.wrong = []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("console", lambda message: page.wrong.append(message.text))
        page.goto(path.as_uri())
        if rater:
            page.get_by_label("Your name").fill(rater)
            page.keyboard.press("Enter")
        return page

    yield open_
    for context in contexts:
        assert [page.wrong for page in context.pages] == [[] for _ in context.pages]
        context.close()


def number_on(page):
    """Return the number of the answer on the page."""
    return int(re.search(r"answer (\d+)$", page.locator("#texts").inner_text().strip())[1])


def saved(page, folder, name):
    """Download the file of labels from the page."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Download labels").click()
    download.value.save_as(folder / name)
    assert download.value.suggested_filename == "page-labelled.csv"
    return folder / name


def test_a_colleague_s_labels_come_back_through_a_reload_an_undo_and_a_skip(folder, opened):
    output = label(folder, "--count", COUNT, "--html", folder / "page.html", "--rater", "me")
    assert f"{COUNT} items written to {folder / 'page.html'}" in output
    page = opened(folder / "page.html")
    expect(page.get_by_role("status")).to_have_text("0 of 20 labelled")
    assert page.get_by_role("group", name="Is this answer good?").is_visible()
    order = []
    for _ in range(3):
        order.append(number_on(page))
        page.keyboard.press("yn"[not good(order[-1])])
    order.append(number_on(page))
    page.get_by_role("button", name=("no", "yes")[good(order[-1])], exact=True).click()
    expect(page.get_by_role("status")).to_have_text("4 of 20 labelled")
    assert page.get_by_role("progressbar").evaluate("bar => [bar.value, bar.max]") == [4, COUNT]

    wrong = number_on(page)
    page.keyboard.press("ny"[not good(wrong)])
    page.keyboard.press("u")
    assert number_on(page) == wrong
    skipped = wrong
    page.keyboard.press("s")
    expect(page.get_by_role("status")).to_have_text("4 of 20 labelled, 1 skipped")
    before = number_on(page)
    page.reload()
    expect(page.get_by_role("status")).to_have_text("4 of 20 labelled, 1 skipped")
    assert page.get_by_label("Your name").is_hidden(), "asked once"
    assert number_on(page) == before, "a skipped one comes again at the end"
    half = read_table(saved(page, folder, "half.csv"))
    assert sum(bool(row["label"]) for row in half) == 4
    while page.locator("#texts section").count():
        number = number_on(page)
        page.keyboard.press("yn"[not good(number)])
        order.append(number)
    assert order[-1] == skipped
    expect(page.get_by_role("heading", level=1)).to_have_text("All items are done")
    page.get_by_role("button", name="Undo").click()
    assert number_on(page) == skipped
    page.keyboard.press("yn"[not good(skipped)])

    rows = read_table(saved(page, folder, "page-labelled.csv"))
    waiting = read_table(folder / "labels.csv")
    assert list(rows[0]) == list(waiting[0]), "the columns of a file of labels"
    assert [row["item_id"] for row in rows] == [row["item_id"] for row in waiting], "the order of the terminal"
    deserved = {f"i{k:02}": str(good(k)) for k in range(N)}
    assert [row["label"] for row in rows] == [deserved[row["item_id"]] for row in rows]
    assert {(row["rater"], row["drawn"], row["probability"]) for row in rows} == {("ann", "random", "")}

    typed = re.search(r"the table with: (care label .*)$", output)[1]
    assert f"--import {folder / 'page-labelled.csv'}" in typed
    assert "20 labels and 0 second labels imported; 20 of 20 labelled" in typed_line(*shlex.split(typed)[1:])
    kept = read_table(folder / "labels.csv")
    assert [(row["label"], row["rater"]) for row in kept] == [(row["label"], row["rater"]) for row in rows]
    fitted = typed_line("fit", folder / "scores.csv", "--labels", folder / "page-labelled.csv", "--out", folder / "fit")
    assert "20 labels of 20 items: 20 drawn at random" in fitted


def test_no_text_of_an_item_is_run_and_each_is_shown_unchanged(folder, opened, tmp_path):
    lines = [
        {"item_id": f'{name}, "{k}"', "prompt": text, "response": f"{text} answer {k}"}
        for k, (name, text) in enumerate(NASTY.items())
    ]
    (folder / "items.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    label(folder, "--html", folder / "page.html", items="items.jsonl")
    asked = []
    page = opened(folder / "page.html", rater=None)
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.get_by_label("Your name").fill('Ann "the, <b>reader</b>"')
    page.get_by_role("button", name="Start").click()
    for k in range(len(lines)):
        texts = page.locator(".said").evaluate_all("all => all.map(each => each.textContent)")
        line = lines[number_on(page)]
        assert texts == [line["prompt"], line["response"]]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.get_by_role("button", name="yes").evaluate("b => b.getBoundingClientRect().bottom <= innerHeight")
        page.get_by_role("button", name="yes" if k % 2 else "no", exact=True).click()
    assert page.evaluate("window.harm") is None
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [(folder / "page.html").as_uri()]
    rows = read_table(saved(page, folder, "page-labelled.csv"))
    assert {row["item_id"] for row in rows} == {line["item_id"] for line in lines}
    assert {row["rater"] for row in rows} == {'Ann "the, <b>reader</b>"'}
    assert "6 labels and" in label(folder, "--import", folder / "page-labelled.csv", items="items.jsonl")
    blocked = """() => {
        document.body.append(Object.assign(document.createElement("script"), {textContent: "window.harm = 3"}));
        document.body.insertAdjacentHTML("beforeend", "<img src=data:, onerror='window.harm = 4'>");
        return new Promise(done => setTimeout(() => done(window.harm), 300));
    }"""
    assert page.evaluate(blocked) is None, "and if one came through, the page's policy would not run it"
    assert any("Content Security Policy" in message for message in page.wrong)
    page.wrong.clear()


def write_pairs(folder):
    pairs = [(f"p{k}", f"question {k}", "first " * 40, "second " * 40, "model x", "model y") for k in range(3)]
    write_table(folder / "pairs.csv", ("item_id", "prompt", "response_a", "response_b", "model_a", "model_b"), pairs)
    return "pairs.csv"


def test_the_page_is_used_by_keyboard_and_announces_what_happens(folder, opened):
    label(folder, "--count", 3, "--html", folder / "page.html")
    page = opened(folder / "page.html", rater=None)
    expect(page.get_by_label("Your name")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.get_by_label("Your name").is_visible(), "a name is needed"
    page.keyboard.type("sunny")  # keys of labels, skips and undo are letters of a name here
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_be_focused()
    expect(heading).to_have_text("Item 1 of 3")
    expect(page.get_by_role("status")).to_have_text("0 of 3 labelled")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="yes")).to_be_focused()
    page.keyboard.press("Space")
    expect(heading).to_be_focused()
    expect(heading).to_have_text("Item 2 of 3")
    for ignored in ("Control+y", "Alt+n", "x"):
        page.keyboard.press(ignored)
    page.get_by_label("Answer by single keys").uncheck()
    page.keyboard.press("y")
    page.reload()
    page.keyboard.press("n")
    expect(page.get_by_role("status")).to_have_text("1 of 3 labelled")
    page.get_by_label("Answer by single keys").check()
    page.keyboard.press("n")
    expect(page.get_by_role("status")).to_have_text("2 of 3 labelled")
    page.get_by_role("button", name="Not sunny?").click()
    page.get_by_label("Your name").fill("bob")
    page.keyboard.press("Enter")
    page.keyboard.press("y")
    rows = read_table(saved(page, folder, "page-labelled.csv"))
    assert [(row["label"], row["rater"]) for row in rows] == [("1", "sunny"), ("0", "sunny"), ("1", "bob")]


def test_two_tabs_share_labels_and_two_pages_do_not(folder, opened):
    label(folder, "--count", 3, "--html", folder / "page.html")
    page = opened(folder / "page.html")
    page.keyboard.press("y")
    other = page.context.new_page()
    other.wrong = []
    other.goto((folder / "page.html").as_uri())
    expect(other.get_by_role("status")).to_have_text("1 of 3 labelled")
    other.keyboard.press("n")
    expect(page.get_by_role("status")).to_have_text("2 of 3 labelled")
    label(folder, "--count", 5, "--html", folder / "more.html")
    other.goto((folder / "more.html").as_uri())
    assert other.get_by_label("Your name").is_visible(), "another file, another sitting"


@pytest.mark.parametrize("mode", MODES)
def test_axe_finds_nothing_from_the_first_screen_to_the_last(folder, opened, mode):
    def found():
        # axe is put into the page as a script, and looks only.
        return Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]

    pairs = write_pairs(folder)
    for items, answers in (("items.csv", "y=1,n=0"), (pairs, "l=1,r=0"), ("items.csv", "0-100")):
        (folder / "labels.csv").unlink(missing_ok=True)
        label(folder, "--count", 1, "--answers", answers, "--html", folder / "page.html", items=items)
        page = opened(folder / "page.html", rater=None, bypass_csp=True, **MODES[mode])
        assert found() == []
        page.get_by_label("Your name").fill("ann")
        page.keyboard.press("Enter")
        assert found() == []
        page.keyboard.press(answers[0])
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("All items are done")
        assert found() == []
