"""Tests of repeated questions."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from judges.bill import Ledger
from judges.engines.base import Context
from judges.engines.factory import build_engine
from judges.engines.forms import FORMS
from judges.items import Item, Status
from judges.spec import JudgeSpec, OpenAIEngine
from tests.support.endpoints import PRICE_IN, PRICE_OUT, Vendor, number_of

ITEMS = [Item(f"i{k}", "What is it?", f"It is {k}.") for k in range(20)]


@pytest.fixture
def vendor(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with ExitStack() as servers:
        yield lambda behave: servers.enter_context(Vendor(behave))


def judge(url, **more):
    prices = {"price_in": PRICE_IN, "price_out": PRICE_OUT, "retries": 1}
    engine = OpenAIEngine(base_url=url, model="judge-1", template="quality", **(prices | more))
    return JudgeSpec(name="api", engine=engine)


def ask(spec, items=ITEMS, **context):
    engine = build_engine(spec, Context(**context))
    try:
        return engine.score(items)
    finally:
        engine.close()


def changing(grades):
    """Return a function that gives an item another grade at each question."""

    def behave(handler, body):
        k = number_of(body)
        with handler.server.lock:
            n = handler.server.state[k] = handler.server.state.get(k, -1) + 1
        return handler.answer(grades(k, n))

    return behave


def test_a_repeated_question_gives_its_mean_and_all_of_its_grades(vendor):
    server, ledger = vendor(changing(lambda k, n: str(6 + n * (k % 4 == 0)))), Ledger()
    scores = ask(judge(server.url, repeats=3, scoring="text"), ledger=ledger)
    assert len(server.bodies) == 60
    assert ledger.total.dollars == pytest.approx(server.dollars)
    for k, score in enumerate(scores):
        assert sorted(json.loads(score.p_json)["score"]) == ([6.0, 7.0, 8.0] if k % 4 == 0 else [6.0] * 3)
        assert score.score == pytest.approx(7.0 if k % 4 == 0 else 6.0)
        assert score.tokens_in == 300


def test_a_repeat_that_gives_nothing_leaves_the_mean_of_the_others(vendor):
    server = vendor(changing(lambda k, n: "no idea" if n == 1 or k == 3 else str(6 + n)))
    scores = ask(judge(server.url, repeats=3, scoring="text"), ITEMS[:4])
    assert [score.score for score in scores] == [7.0, 7.0, 7.0, None]
    assert [score.status for score in scores] == [*[Status.OK] * 3, Status.PARSE_ERROR]
    assert json.loads(scores[3].p_json) == {"score": [None] * 3}


def test_repeats_make_another_judge_and_once_is_no_setting():
    plain, once, thrice = (judge("http://h/v1", **more).key("r") for more in ({}, {"repeats": 1}, {"repeats": 3}))
    assert plain == once != thrice


def test_the_temperature_in_a_judges_file_reaches_every_form():
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}], "temperature": 0.7}
    assert FORMS[None].request(body)["temperature"] == FORMS["anthropic"].request(body)["temperature"] == 0.7
    assert FORMS["google"].request(body)["generationConfig"]["temperature"] == 0.7
