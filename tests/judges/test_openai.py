"""Tests of judges at an OpenAI-compatible endpoint, with a local server that misbehaves."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack

import pytest

from care_ops.errors import InputError, JudgeError
from judges import pool
from judges.bill import Purse
from judges.engines.base import Context, Ledger, StoppedError
from judges.engines.checks import checks
from judges.engines.factory import build_engine
from judges.items import Item, Score, Status
from judges.pool import Pool, PoolConfig
from judges.spec import JudgeSpec, OpenAIEngine
from tests.support.judging import run_judge
from tests.support.openai_server import Server, answer, first_token
from tests.support.servers import free_port

KEY = "sk-very-secret"


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ExitStack() as servers:
        yield lambda say: servers.enter_context(Server(say))


def judge(server, **more):
    engine = {"base_url": server.url, "model": "judge-1", "template": "quality", "timeout_s": 1.0, **more}
    return JudgeSpec(name="api", engine=OpenAIEngine(**engine), batch_size=more.pop("batch_size", 256))


def items(n):
    return [Item(f"i{k}", "What is it?", f"It is {k}.") for k in range(n)]


def scores(server, n=1, ledger=None, **more):
    engine = build_engine(judge(server, **more), Context(ledger=ledger))
    try:
        return engine.score(items(n))
    finally:
        engine.close()


def test_probabilities_of_the_first_token_are_used(serve):
    server = serve(lambda *_: answer("8", first_token("8", _7=0.2, _8=0.6, _9=0.1, The=0.1)))
    answers = scores(server, 3)
    assert [s.score for s in answers] == [pytest.approx((1.4 + 4.8 + 0.9) / 0.9)] * 3
    assert answers[0].valid_mass == pytest.approx(0.9)
    assert (answers[0].tokens_in, answers[0].tokens_out) == (100, 1)
    body, headers = server.requests[0]
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body["temperature"] == 0
    assert body["top_logprobs"] == 20


def test_little_mass_on_legal_answers_is_no_score(serve):
    score = scores(serve(lambda *_: answer("8", first_token("8", _8=0.3, Well=0.7))))[0]
    assert (score.score, score.status) == (None, Status.LOW_VALID_MASS)


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        [],
        [{"token": "8"}],
        [{"token": "8", "top_logprobs": "many"}],
        [{"token": "8", "top_logprobs": [{"token": "8", "logprob": "x"}]}],
        [{"token": "8", "top_logprobs": [{"token": "8", "logprob": 3.0}]}],
        [{"token": "8", "top_logprobs": [{"token": "8", "logprob": 0.0}, {"token": "9", "logprob": 0.0}]}],
        [{"token": "8", "top_logprobs": [{"token": "8", "logprob": float("nan")}]}],
        [{"token": "2", "top_logprobs": [{"token": "2", "logprob": -0.1}]}],
        [{"token": "Total", "top_logprobs": [{"token": "Total", "logprob": -0.1}]}],
    ],
    ids=range(10),
)
def test_wrong_log_probabilities_leave_the_text(serve, logprobs):
    score = scores(serve(lambda *_: answer("8", logprobs)))[0]
    assert (score.score, score.status, score.p_json) == (8.0, Status.OK, None)


def test_an_answer_of_several_tokens_is_read_as_text(serve):
    tokens = [*first_token("1", _1=0.9), {"token": "0", "logprob": 0.0, "top_logprobs": []}]
    assert scores(serve(lambda *_: answer("10", tokens)))[0].score == 10.0


def test_rate_limits_are_waited_for(serve):
    server = serve(lambda _, attempt: (429, "slow down") if attempt == 1 else answer("7"))
    assert [s.score for s in scores(server, 3)] == [7.0] * 3
    first = {}
    for (body, _), at in zip(server.requests, server.at, strict=True):
        text = body["messages"][0]["content"]
        if text in first:
            assert at - first[text] >= 0.2  # what Retry-After asked
        first.setdefault(text, at)


def test_requests_keep_the_configured_rate(serve):
    server = serve(lambda *_: answer("7"))
    scores(server, 5, requests_per_minute=600.0)
    at = sorted(server.at)
    assert at[-1] - at[0] >= 0.3


@pytest.mark.parametrize(
    "reply", [(500, "oops"), (503, "{}"), (200, '{"choices": [{"mess'), (200, "[]"), (200, "null")], ids=range(5)
)
def test_a_server_that_fails_once_is_asked_again(serve, reply):
    server = serve(lambda _, attempt: reply if attempt == 1 else answer("7"))
    assert scores(server)[0].score == 7.0
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ({"error": {"message": "maximum context length exceeded"}}, Status.TOO_LONG),
        ((500, "oops"), Status.ENGINE_ERROR),
        ((429, "no"), Status.ENGINE_ERROR),
        ((200, '{"choices": [{"mess'), Status.ENGINE_ERROR),
        ({"error": {"message": "bad request"}}, Status.ENGINE_ERROR),
        ({"model": "judge-1", "choices": []}, Status.ENGINE_ERROR),
        (answer(None, refusal="I will not"), Status.REFUSED),
        (answer(None), Status.PARSE_ERROR),
        (answer("I'm sorry, I cannot"), Status.REFUSED),
        (answer("95"), Status.OUT_OF_RANGE),
    ],
    ids=range(10),
)
def test_other_errors_give_a_status(serve, reply, status):
    score = scores(serve(lambda *_: reply), retries=0)[0]
    assert (score.score, score.status) == (None, status)


def test_a_refused_key_ends_the_judge_and_is_not_repeated(serve):
    server = serve(lambda *_: (401, f"Incorrect API key provided: {KEY}"))
    with pytest.raises(JudgeError, match="HTTP 401") as error:
        scores(server)
    assert KEY not in str(error.value)
    score = scores(serve(lambda *_: (500, f"crash with {KEY}")), retries=0)[0]
    assert KEY not in (score.raw or "")


def test_retries_are_logged_without_the_key(serve, caplog):
    caplog.set_level(logging.INFO, logger="judges.engines.openai")
    scores(serve(lambda *_: (500, f"crash with {KEY}")), retries=1)
    assert "attempt 1 failed (HTTP 500: crash with ***)" in caplog.text
    assert "a request failed after all retries" in caplog.text
    assert KEY not in caplog.text


def test_a_missing_key_is_reported(serve, monkeypatch):
    server = serve(lambda *_: answer("7"))
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(JudgeError, match="OPENAI_API_KEY is not set"):
        scores(server)
    assert scores(server, api_key_env=None)[0].score == 7.0


def test_the_spend_limit_holds_and_what_was_paid_is_kept(serve):
    """Each input token costs a dollar, each request a hundred dollars; the limit is 5,000."""
    server = serve(lambda *_: answer("7"))
    money = {"price_in": 1e6, "price_out": 0.0, "spend_limit": 5_000.0, "concurrency": 4}
    kept = []
    ledger = Ledger()
    with Pool(PoolConfig()) as pool, pytest.raises(StoppedError, match="are spent"):
        run_judge(pool, judge(server, **money), items(200), lambda batch, _: kept.extend(batch), Context(ledger=ledger))
    assert 0 < len(kept) == len(server.requests) < 200
    assert all(s.status is Status.OK for s in kept)
    assert ledger.total.dollars == 100.0 * len(kept) <= 5_000.0
    with pytest.raises(StoppedError, match="are spent"):  # the ledger is the run's, over test sets
        scores(server, 30, ledger=ledger, **money)
    assert ledger.total.dollars <= 5_000.0


UNREACHED = {
    "nobody listens": "http://127.0.0.1:{port}/v1",
    "no such host": "http://nowhere.invalid:{port}/v1",
    "no TLS": "https://127.0.0.1:{server}/v1",
}


@pytest.mark.parametrize("address", UNREACHED.values(), ids=UNREACHED)
def test_a_request_that_never_reached_the_server_costs_nothing(serve, address):
    """The port is closed, the name is unknown, or the server has no TLS."""
    server = serve(lambda *_: answer("7"))
    purse = Purse(1.0, "the limit")
    ledger = Ledger([purse])
    url = address.format(port=free_port(), server=server.server_address[1])
    money = {"price_in": 1.0, "price_out": 1.0, "retries": 0}
    assert {s.status for s in scores(server, 3, ledger, base_url=url, **money)} == {Status.ENGINE_ERROR}
    assert (ledger.total.requests, ledger.total.unknown, ledger.total.dollars) == (3, 0.0, 0.0)
    assert (purse.spent, purse.perhaps) == (0.0, 0.0)
    assert server.requests == []


def test_unknown_costs_are_not_reported_as_spent(serve):
    """One answer is paid and two are too late; the maximum cost of the late answers is counted separately."""
    server = serve(lambda text, _: answer("7") if "It is 0" in text else 3.0)
    money = {"price_in": 1e6, "price_out": 0.0, "retries": 0, "timeout_s": 0.3, "concurrency": 1}
    purse = Purse(1_000.0, "the limit")
    with pytest.raises(StoppedError) as stopped:
        scores(server, 30, Ledger([purse]), **money)
    assert purse.spent == 100.0
    assert 0 < purse.perhaps <= 900.0
    message = f"100.0000 of 1000.0 US dollars are spent, and at most {purse.perhaps:.4f} more"
    assert message in str(stopped.value)


def test_answers_are_stored_while_one_is_late(serve, monkeypatch):
    """Fewer answers than a batch have arrived; a kill would lose only those of the last seconds."""
    monkeypatch.setattr(pool, "STORED_EVERY_S", 0.1)
    stored, kept, in_time = threading.Event(), [], []

    def say(text, _):
        if "It is 5." in text:
            in_time.append(stored.wait(10))
        return answer("7")

    def sink(scores, _):
        kept.append(len(scores))
        stored.set()

    with Pool(PoolConfig()) as judges:
        run_judge(judges, judge(serve(say), timeout_s=60.0), items(40), sink)
    assert in_time == [True]
    assert sum(kept) == 40
    assert len(kept) < 20, "not a part for each answer"


def test_equal_prompts_of_items_that_differ_elsewhere_are_asked_once(serve):
    """The template does not show the reference."""
    server = serve(lambda *_: answer("7"))
    alike = [Item(f"i{k}", "What is it?", f"It is {k // 4}.", reference=f"{k}") for k in range(32)]
    with Pool(PoolConfig()) as judges:
        assert run_judge(judges, judge(server), alike, lambda *_: None) == 32
    assert len(server.requests) == 8


def test_a_judge_is_stopped_if_too_much_of_a_batch_fails_with_an_early_warning(serve, caplog):
    server, kept = serve(lambda *_: (500, "oops")), []
    with Pool(PoolConfig()) as judges, pytest.raises(JudgeError, match=r"\d+ of \d+ items of a batch failed"):
        run_judge(judges, judge(server, retries=0, concurrency=2), items(200), lambda scores, _: kept.extend(scores))
    assert 100 < len(kept) < 110
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.startswith("Judge 'api': a request failed after all retries (HTTP 500: oops)")


@pytest.mark.parametrize("prices", [{}, {"price_in": 1.0}, {"price_out": 1.0}])
def test_a_judge_with_a_limit_and_without_prices_is_not_asked(serve, prices):
    server = serve(lambda *_: answer("7"))
    with pytest.raises(
        JudgeError, match="'api' has a spend_limit but no prices, so CARE cannot enforce the limit; set price_in"
    ):
        scores(server, spend_limit=1.0, **prices)
    assert server.requests == []
    assert scores(server, **prices)[0].score == 7.0


def test_a_limit_on_what_costs_nothing_is_refused():
    with pytest.raises(ValueError, match="needs a price above 0"):
        OpenAIEngine(base_url="http://x", model="m", spend_limit=1.0, price_in=0.0, price_out=0.0)


def test_doctor_reports_missing_prices(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def price_states(**money: float) -> list[str]:
        engine = OpenAIEngine(base_url="http://x", model="m", **money)  # type: ignore[arg-type]
        return [state for state, words in checks(JudgeSpec(name="api", engine=engine, license="x")) if "price" in words]

    assert price_states() == ["warns"]
    assert price_states(spend_limit=1.0) == ["fails"]
    assert price_states(spend_limit=1.0, price_in=1.0, price_out=2.0) == price_states(price_in=0.0, price_out=0.0) == []


def test_pairs_are_shown_both_ways(serve):
    """A judge that always prefers the first answer has no preference, only position bias."""
    server = serve(lambda *_: answer("1"))
    engine = build_engine(judge(server, template="preference", scoring="text"))
    score = engine.score([Item("a", "q", "one", "two")])[0]
    engine.close()
    assert (score.score, score.order) == (0.0, "both")
    longer = serve(lambda text, _: answer("6" if "Response B: long" in text else "0"))
    engine = build_engine(judge(longer, template="preference", scoring="text"))
    assert [s.score for s in engine.score([Item("a", "q", "one", "long"), Item("b", "q", "long", "x")])] == [3.0, -3.0]
    assert "needs response_2, which the item lacks" in engine.score([Item("c", "q", "one response")])[0].raw
    engine.close()


def test_a_judge_without_a_template_is_refused(serve):
    with pytest.raises(InputError, match="has a prompt template"):
        build_engine(judge(serve(lambda *_: answer("7")), template=None))


def test_an_answer_that_is_cut_within_a_character_can_be_kept(serve):
    """JSON may contain half of a surrogate pair, which no file can hold."""
    score = scores(serve(lambda *_: answer("7 because it is fun \ud83d")))[0]
    assert score.status == Status.OK
    assert (score.raw or "").encode().decode().endswith("fun \N{REPLACEMENT CHARACTER}")
    whole = Score("i", "k", 1.0, Status.OK, raw="\ud83d\ude00 and é")
    assert whole.raw == "\N{GRINNING FACE} and é"
