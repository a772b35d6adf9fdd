"""Nights of judges that are asked for several criteria at once: a call for each item, a test set for each criterion."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, closing
from functools import lru_cache

import pytest

from assets.judging.bill import Account, bills, purses
from assets.judging.judge_inference import score_pending
from assets.judging.stored_items import StoredItems
from assets.report.names import page_name
from judges.pool import Pool
from orchestration.workspace import load_workspace
from tests.support.endpoints import PRICE_IN, PRICE_OUT, Vendor, number_of
from tests.support.workspaces import care_json, make, query, run
from warehouse.parts import PartStore

N = 30
PROMPT = """\
criteria:
  helpfulness: Does the answer help who asked?
  correctness: Are its claims true?
needs: [prompt, response]
instructions: Rate the answer from {{ low }} to {{ high }}.
item: |-
  Question: {{ prompt }}
  Answer: {{ response }}
"""


def said(k):
    return {"helpfulness": k % 11, "correctness": k * 7 % 11}


def by_schema(handler, body):
    assert list(body["response_format"]["json_schema"]["schema"]["properties"]) == ["helpfulness", "correctness"]
    return handler.answer(json.dumps(said(number_of(body))), tokens=(100, 10))


def write_testset(folder, name, criterion, more=""):
    (folder / "testsets" / f"{name}.yaml").write_text(
        "source: {kind: files, items: one.csv, columns: {prompt: question, response: answer, gold: label}}\n"
        f"scale: [0, 10]\nprompt: answers/{criterion}\n{more}"
    )


def write_judge(folder, server, name="api", more=""):
    (folder / "judges" / f"{name}.yaml").write_text(
        f"engine: {{kind: openai, base_url: '{server.url}', model: judge-1, price_in: {PRICE_IN}, "
        f"price_out: {PRICE_OUT}{more}}}\nbatch_size: 10\n"
    )


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """Two test sets over one file of items, each of whose answers ends with its number, and two programs."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    folder = make(tmp_path / "ws", ("length", "thoroughness"), 0)
    rows = [f"i{k},What is it? {k},It is {k}.{' And more.' * (k % 5)},{k % 2}" for k in range(N)]
    (folder / "one.csv").write_text("\n".join(["item_id,question,answer,label", *rows]) + "\n")
    (folder / "testsets" / "one.yaml").unlink()
    (folder / "prompts").mkdir()
    (folder / "prompts" / "answers.yaml").write_text(PROMPT)
    write_testset(folder, "helpful", "helpfulness")
    write_testset(folder, "right", "correctness")
    with ExitStack() as servers:
        server = servers.enter_context(Vendor(by_schema))
        write_judge(folder, server)
        yield folder, server


def scores(folder, testset, judge="api"):
    sql = (
        "SELECT item_id, value FROM scores JOIN items USING (item_ix) JOIN judges USING (judge_ix) "
        f"WHERE testset = '{testset}' AND judge = '{judge}' ORDER BY item_id"
    )
    return dict(query(folder, sql))


def test_each_item_is_paid_once_and_every_criterion_reaches_its_panel(workspace):
    folder, server = workspace
    forecast = {(row["judge"], row["testset"]): row["questions"] for row in care_json(folder, "run", "--dry-run")}
    assert (forecast["api", "helpful"], forecast["api", "right"]) == (N, 0)
    outcome = run(folder)
    assert not outcome.failures
    assert len(server.bodies) == N
    for testset, criterion in (("helpful", "helpfulness"), ("right", "correctness")):
        assert scores(folder, testset) == {f"i{k}": said(k)[criterion] for k in range(N)}
        assert {judge for judge, _ in query(folder, f"SELECT judge, 1 FROM panels WHERE testset = '{testset}'")} == {
            "api",
            "length",
            "thoroughness",
        }
        assert (folder / "data" / "report" / page_name(testset)).exists()
    rows = {row.testset: row for row in bills(load_workspace(folder), judge="api")}
    assert sum(row.dollars for row in rows.values()) == pytest.approx(server.dollars)
    assert [*rows] == ["helpful"], "nothing was asked of the other test set, so that it is on no bill"
    assert not run(folder).materialised
    assert len(server.bodies) == N


@pytest.mark.slow
def test_a_test_set_that_comes_later_costs_nothing_but_its_own_items(workspace):
    folder, server = workspace
    (folder / "testsets" / "right.yaml").unlink()
    assert not run(folder).failures
    write_testset(folder, "right", "correctness")
    assert not run(folder).failures
    assert len(server.bodies) == N
    write_testset(folder, "helpful", "helpfulness")
    assert not run(folder).failures
    assert len(server.bodies) == N
    assert len(scores(folder, "right")) == N


@pytest.mark.slow
def test_failures_are_asked_again_once_for_all_criteria(workspace):
    """What may pass is asked again; what says something of the item is told to both test sets, and is not."""
    folder, server = workspace
    failing = {3, 4}

    def behave(handler, body):
        k = number_of(body)
        if k in failing:
            return handler.refuse("overloaded", 500)
        if k == 7:
            return handler.refuse("This model's maximum context length is 10 tokens")
        return by_schema(handler, body)

    server.behave = behave
    write_judge(folder, server, more=", retries: 0")
    run(folder)
    asked = len(server.bodies)
    assert asked == N + 2, "each test set asks about the two that failed, and the other one about no others"
    failing.clear()
    outcome = run(folder)
    assert not outcome.failures
    assert len(server.bodies) == asked + 2
    for testset in ("helpful", "right"):
        assert [item for item, value in scores(folder, testset).items() if value is None] == ["i7"]
        sql = f"SELECT status FROM scores JOIN items USING (item_ix) WHERE testset = '{testset}' AND value IS NULL"
        assert query(folder, sql) == [("too_long",)]


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("step", range(4))
def test_killed_at_any_write_nobody_is_paid_twice(workspace, monkeypatch, step):
    """Three batches of answers are stored for the first test set, and then all of them for the second."""
    folder, server = workspace
    assert not run(folder, selection="items").failures
    write, written = PartStore.write_score_columns, []

    def dying(self, *args):
        if len(written) == step:
            raise Killed
        written.append(1)
        return write(self, *args)

    def ask():
        loaded = load_workspace(folder)
        with closing(Account(loaded, "api", purses(loaded))) as account, Pool(loaded.pool).session() as session:
            read = lru_cache(lambda testset: StoredItems(loaded.parts, testset))
            score_pending(loaded, "api", read, session, account)

    def stored(testset):
        rows = load_workspace(folder).parts.read_scores("api", testset, ("item_id", "score")).to_pylist()
        return {row["item_id"]: row["score"] for row in rows}

    monkeypatch.setattr(PartStore, "write_score_columns", dying)
    with pytest.raises(Killed):
        ask()
    monkeypatch.setattr(PartStore, "write_score_columns", write)
    paid, kept = len(server.bodies), len(stored("helpful"))
    assert (kept, len(stored("right"))) == (10 * min(step, 3), 0)
    ask()
    assert len(server.bodies) == paid + N - kept
    for testset, criterion in (("helpful", "helpfulness"), ("right", "correctness")):
        assert stored(testset) == {f"i{k}": said(k)[criterion] for k in range(N)}


def test_the_flip_rate_of_a_repeated_judge_is_on_its_card(workspace):
    """Of 30 items the server changes its mind about every third, by the count of this test."""
    folder, server = workspace
    seen = {}

    def wavering(handler, body):
        k = number_of(body)
        with server.lock:
            seen[k] = seen.get(k, -1) + 1
        answer = said(k) | ({"helpfulness": seen[k]} if k % 3 == 0 else {})
        return handler.answer(json.dumps(answer), tokens=(100, 10))

    server.behave = wavering
    write_judge(folder, server, more=", repeats: 3, extra_body: {temperature: 1}")
    assert not run(folder).failures
    assert len(server.bodies) == 3 * N
    assert {body["temperature"] for body in server.bodies} == {1}
    expected = {f"i{k}": 1.0 if k % 3 == 0 else said(k)["helpfulness"] for k in range(N)}
    assert scores(folder, "helpful") == expected
    shown = {}
    for testset in ("helpful", "right"):
        page = (folder / "data" / "report" / page_name(testset)).read_text()
        (shown[testset],) = re.findall(r"<dt>Repeats</dt><dd>(.*?)</dd>", page)
    assert "it gave 10 of 30 items different grades (flip rate 33.3%)" in shown["helpful"]
    assert "it gave 0 of 30 items different grades (flip rate 0.0%)" in shown["right"]
