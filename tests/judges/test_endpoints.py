"""Tests of judges at endpoints that imitate vendors: refusals, names, failures."""

from __future__ import annotations

import base64
import copy
import json
import logging
import re
import textwrap
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

import pytest

from care_ops.errors import InputError, JudgeError
from judges.engines.base import Context, Ledger, StoppedError
from judges.engines.checks import checks
from judges.engines.endpoint import Endpoint, headers_of
from judges.engines.factory import build_engine
from judges.engines.pace import seconds
from judges.items import Item, Status
from judges.pool import Pool, PoolConfig
from judges.redaction import Secrets
from judges.settings_files import read_model
from judges.spec import JudgeSpec, OpenAIEngine
from orchestration.alerts import Alert, post
from orchestration.workspace import AlertSettings
from tests.support import endpoints
from tests.support.endpoints import PRICE_IN, PRICE_OUT, Vendor, number_of
from tests.support.judging import run_judge
from tests.support.servers import LocalServer, QuietHandler, wait_until

KEY = "sk-proj-Zq7vW2xT9/bN4+kLp3=mR8"


@pytest.fixture
def vendor(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ExitStack() as servers:
        yield lambda behave: servers.enter_context(Vendor(behave))


def judge(server, **more):
    settings = {"model": "judge-1", "template": "quality", "timeout_s": 1.0, "retries": 2}
    prices = {"price_in": PRICE_IN, "price_out": PRICE_OUT}
    batch = more.pop("batch_size", 256)
    return JudgeSpec(
        name="api",
        engine=OpenAIEngine(base_url=server.url, **(settings | prices | more)),
        batch_size=batch,
        most_failing=1.0,
    )


def ask(server, n=20, context=None, **more):
    """Return the scores of n items and the models that answered."""
    context = context or Context(ledger=Ledger())
    scores, versions = [], []
    items = [Item(f"i{k}", "What is it?", f"It is {k}.") for k in range(n)]
    with Pool(PoolConfig()) as pool:
        try:
            run_judge(pool, judge(server, **more), items, lambda b, v: (scores.extend(b), versions.append(v)), context)
        finally:
            ask.kept = scores
    return sorted(scores, key=lambda s: int(s.item_id[1:])), versions[-1]


@pytest.mark.parametrize("kind", endpoints.KINDS, ids=lambda kind: kind.__name__)
def test_each_endpoint_gives_a_score_or_a_status_for_every_item_and_the_bill_is_its_own(vendor, kind):
    server = vendor(kind)
    ledger = Ledger()
    retries, form = 4 if kind is endpoints.storm else 1, endpoints.FORMS.get(kind)
    scores, _ = ask(server, context=Context(ledger=ledger), retries=retries, form=form)
    failing = {
        endpoints.dripping: (Status.TIMEOUT, 4),
        endpoints.bomb: (Status.ENGINE_ERROR, 8),
        endpoints.echoing: (Status.ENGINE_ERROR, 10),
    }
    status, failed = failing.get(kind, (Status.OK, 20))
    assert len(scores) == 20
    assert sum(score.status is status for score in scores) == failed
    assert all((score.score == 7.0) == (score.status is Status.OK) for score in scores)
    paid, unknown = ledger.total.dollars, ledger.total.unknown  # the latter of answers that came after the deadline
    assert paid * (1 - 1e-9) <= server.dollars <= (paid + unknown) * (1 + 1e-9)
    counted = sum(PRICE_IN * (s.tokens_in or 0) + PRICE_OUT * (s.tokens_out or 0) for s in scores) / 1e6
    assert counted == pytest.approx(server.dollars)
    assert (ledger.total.unknown == 0) == (kind not in failing)
    assert server.refused < 60, "after a storm fewer are asked at the same time"


def test_what_a_model_takes_is_learned_once_and_kept(vendor, tmp_path):
    server = vendor(endpoints.reasoning_model)
    _, version = ask(server, context=Context(learned=tmp_path))
    assert version == "openai thinker-2026-08-01"
    assert server.refused == 3, "max_tokens, temperature and log probabilities, each by one request"
    cut = sum(body.get("max_completion_tokens") == 16 + 2048 for body in server.bodies)
    asked = len(server.bodies)
    _, _ = ask(server, context=Context(learned=tmp_path))
    assert server.refused == 3
    assert len(server.bodies) == asked + 20, "not one is refused or cut off again"
    assert cut >= 1


def test_a_parameter_that_a_person_asked_for_is_never_left_out(vendor):
    def refusing(handler, body):
        name = next(name for name in ("reasoning_effort", "seed") if name in body)
        handler.refuse(f"Unknown parameter: '{name}'.", param=name)

    server = vendor(refusing)
    for more in ({"reasoning_effort": "low"}, {"extra_body": {"seed": 7}}):
        ledger = Ledger()
        with pytest.raises(JudgeError, match=r"HTTP 400 .*Unknown parameter: '(reasoning_effort|seed)'"):
            ask(server, 200, Context(ledger=ledger), **more)
        assert ledger.total.dollars == ledger.total.unknown == 0
    assert len(server.bodies) == 2, "it stops at once, and does not ask the other 199"


def test_a_refusal_in_the_middle_keeps_what_was_paid_for(vendor):
    def dismissing(handler, _body):
        if len(handler.server.bodies) > 40:
            return handler.refuse("Your key was revoked", 401)
        return handler.answer()

    server = vendor(dismissing)
    with pytest.raises(JudgeError, match=r"HTTP 401 .*Your key was revoked"):
        ask(server, 200, batch_size=15)
    assert len(ask.kept) == 40
    assert all(score.status is Status.OK for score in ask.kept)
    assert len(server.bodies) <= 40 + 8


def test_extra_fields_headers_and_effort_are_sent_and_only_what_changes_a_score_is_in_the_key(vendor, monkeypatch):
    monkeypatch.setenv("TEAM_TOKEN", "team-secret-1")
    seen = []

    def noting(handler, body):
        seen.append((dict(handler.headers), body))
        handler.answer()

    server = vendor(noting)
    more = {
        "headers": {"X-Title": "CARE", "api-key": "${TEAM_TOKEN}"},
        "extra_body": {"provider": {"order": ["one"]}, "temperature": 0.5},
        "reasoning_effort": "low",
    }
    ask(server, 1, **more)
    headers, body = seen[0]
    assert (headers["X-Title"], headers["api-key"]) == ("CARE", "team-secret-1")
    assert (body["provider"], body["temperature"], body["reasoning_effort"]) == ({"order": ["one"]}, 0.5, "low")
    keys = [judge(server, **settings).key("r") for settings in ({}, {"headers": more["headers"]}, more)]
    assert keys[0] == keys[1] != keys[2]
    monkeypatch.delenv("TEAM_TOKEN")
    with pytest.raises(JudgeError, match="TEAM_TOKEN is not set; set it to the value of the header api-key"):
        build_engine(judge(server, **more))


def test_the_answering_model_is_recorded_and_can_be_pinned(vendor):
    server = vendor(endpoints.router)
    scores, version = ask(server)
    assert version == "openai vendor0/large-2026-08-01, vendor1/large-2026-08-01"
    assert all(score.status is Status.OK for score in scores)
    scores, version = ask(server, model_must_be="vendor1/large-2026-08-01")
    assert version == "openai vendor1/large-2026-08-01"
    assert [score.status for score in scores[:2]] == [Status.ENGINE_ERROR, Status.OK]
    reason = "vendor0/large-2026-08-01 answered, but model_must_be is vendor1/large-2026-08-01"
    assert scores[0].raw == reason


def test_an_answer_that_is_always_cut_off_has_its_own_status(vendor):
    server = vendor(lambda handler, body: handler.answer("", tokens=(100, 9), finish="length"))
    scores, _ = ask(server, 1)
    assert (scores[0].score, scores[0].status) == (None, Status.CUT_OFF)
    assert [body["max_tokens"] for body in server.bodies] == [16, 16 + 4096], "asked once more, with more room"
    assert scores[0].tokens_out == 18


def test_thoughts_before_the_answer_are_no_answer(vendor):
    server = vendor(lambda handler, _: handler.answer("<think>It is 3, or rather 4.</think>\n8"))
    assert ask(server, 1)[0][0].score == 8.0


def test_text_is_read_without_log_probabilities_with_a_warning(vendor, caplog):
    caplog.set_level(logging.WARNING)
    ask(vendor(endpoints.without_logprobs))
    assert caplog.text.count("CARE parses the model's text") == 1


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Insufficient quota", "type": "insufficient_quota", "code": "insufficient_quota"},
        {"message": "Try again tomorrow"},
    ],
    ids=["quota", "tomorrow"],
)
def test_an_endpoint_that_wants_a_long_pause_stops_the_judge(vendor, error):
    def spent(handler, _body):
        handler.send(429, {"error": error}, {"retry-after": "86400"})

    server = vendor(spent)
    with pytest.raises(JudgeError, match="HTTP 429"):
        ask(server, 50)
    assert len(server.bodies) == 1


class _NoEnd(QuietHandler, BaseHTTPRequestHandler):
    """Server whose answers are endless and slow; below ``/late``, even the header does not end."""

    def do_GET(self):
        if not self.path.startswith("/late"):
            self.send_response(401 if "refused" in self.path else 200)
            self.end_headers()
        try:
            while True:
                self.wfile.write(b"x")
                time.sleep(0.1)
        except OSError:
            return


@pytest.mark.parametrize(
    ("path", "state", "words"),
    [("v1", "ok", "answers"), ("refused", "fails", "refuses the key"), ("late", "fails", "no response within 1 s")],
)
def test_a_look_at_an_endpoint_reads_no_more_than_it_needs(path, state, words):
    with LocalServer(_NoEnd) as server:
        address = f"{server.url.removesuffix('v1')}{path}"
        engine = OpenAIEngine(base_url=address, model="m", template="quality", api_key_env=None, timeout_s=1.0)
        began = time.monotonic()
        rows = checks(JudgeSpec(name="api", engine=engine, license="x"))
        assert time.monotonic() - began < 20
    assert [(found, address in text) for found, text in rows if words in text] == [(state, True)]


def test_a_password_in_the_address_or_a_key_in_a_field_is_not_shown(monkeypatch):
    named = {"api_key": "SECRET", "provider": {"auth_token": "SECRET", "order": ["a"]}, "max_tokens": 9}
    for address in ("http://me:SECRET@localhost:9/v1?key=SECRET", "htp://me:SECRET@localhost/v1"):
        spec = {"model": "m", "template": "quality", "api_key_env": None, "base_url": address, "extra_body": named}
        judge = JudgeSpec.model_validate({"name": "api", "license": "x", "engine": {"kind": "openai", **spec}})
        shown_text = str(checks(judge)) + judge.shown()
        assert "SECRET" not in shown_text
        assert "localhost" in shown_text
    shown = json.loads(judge.shown())["engine"]["extra_body"]
    assert shown == {"api_key": "***", "provider": {"auth_token": "***", "order": ["a"]}, "max_tokens": 9}
    hide = Secrets(headers_of("api", judge.engine)[1]).hide
    assert hide("you sent SECRET") == "you sent ***"


@pytest.mark.parametrize("key", ["sk-proj-Zq7vW2xT9", "two words", "9LIVES"])
def test_a_key_in_place_of_the_name_of_its_variable_is_refused_and_not_repeated(tmp_path, key):
    path = tmp_path / "api.yaml"
    path.write_text(f"engine: {{kind: openai, model: m, base_url: 'http://localhost/v1', api_key_env: '{key}'}}\n")
    with pytest.raises(InputError, match="api_key_env: not the name of an environment variable") as caught:
        read_model(path, JudgeSpec)
    assert key not in "".join(traceback.format_exception(caught.value))


class _Proxy(QuietHandler, BaseHTTPRequestHandler):
    """Proxy that answers itself, and records the requested address and the credentials."""

    seen: ClassVar[list[tuple[str, str | None]]] = []

    def _note(self):
        self.seen.append((self.path, self.headers["Proxy-Authorization"]))
        self.send_response(200)
        self.end_headers()

    do_GET = do_POST = _note  # noqa: N815, as http.server calls them


def through(monkeypatch, **proxies):
    """Ask an endpoint with these environment variables for proxies, and no others."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    return OpenAIEngine(base_url="http://judge.example/v1", model="m", template="quality", api_key_env=None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ALL_PROXY", "socks5://me:SECRET@localhost:1"), ("HTTP_PROXY", "htp:/x"), ("HTTP_PROXY", "http://x:SECRET")],
)
def test_an_unusable_proxy_is_reported_with_its_variable(monkeypatch, name, value):
    engine = through(monkeypatch, **{name: value})
    ((state, reason),) = checks(JudgeSpec(name="api", engine=engine, license="x"))[:1]
    assert (state, name in reason, "pip install socksio" in reason, "SECRET" in reason) == ("fails", True, True, False)
    with pytest.raises(JudgeError, match=name):
        post(AlertSettings(webhook="http://hook.example/x"), Alert("late run", "It is late."))
    engine = through(monkeypatch, **{name: value, "NO_PROXY": "judge.example"})
    Endpoint("api", engine).close()


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_judges_and_alerts_use_the_proxy_of_the_environment(monkeypatch, scheme):
    with LocalServer(_Proxy) as server:
        place = server.url.removeprefix("http://").partition("/")[0]
        engine = through(monkeypatch, ALL_PROXY=f"{scheme}me:word@{place}")
        assert checks(JudgeSpec(name="api", engine=engine, license="x"))[0][0] == "ok"
        post(AlertSettings(webhook="http://hook.example/x"), Alert("late run", "It is late."))
    word = f"Basic {base64.b64encode(b'me:word').decode()}"
    assert [*_Proxy.seen] == [("http://judge.example/v1/models", word), ("http://hook.example/x", word)]
    _Proxy.seen.clear()


@pytest.mark.parametrize("before", ["", "u", "me", "user:"])
def test_no_form_of_a_key_stays_in_a_text(before):
    hide = Secrets([KEY]).hide
    sent = f"{before}{KEY}".encode()
    for form in (base64.b64encode(sent).decode(), sent.hex(), sent.hex().upper(), KEY.swapcase()):
        for start in ("it said ", "İstek reddedildi: ", "ﬃ ΐ ẞ: "):  # lower cases and plain forms may be longer
            kept = hide(f"{start}{form} again", 1000)
            left = kept.removeprefix(start).removesuffix(" again").replace("***", "")
            assert len(left) <= 4 * len(before) + 4, kept
            assert kept.startswith(start)


@pytest.mark.parametrize(
    "form",
    [
        lambda key: base64.b64encode(base64.b64encode(key.encode())).decode(),
        lambda key: base64.urlsafe_b64encode(b"??>>" + key.swapcase().encode()).decode(),
        lambda key: base64.b64encode(key.encode("utf-16")).decode(),
        lambda key: textwrap.fill(base64.b64encode(key.encode()).decode(), 7),
        lambda key: key.encode().hex().encode().hex(),
        lambda key: "".join(f"%{ord(c):02x}" for c in key),
        lambda key: "".join(f"%25{ord(c):02X}" for c in key),
        lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
        lambda key: json.dumps(json.dumps("".join(f"\\x{ord(c):02x}" for c in key))),
        lambda key: "".join(f"&#{ord(c)};" for c in key),
        lambda key: json.dumps("\n".join(key)),
        lambda key: " ".join(key),
        lambda key: "\u200b".join(key),
        lambda key: "".join(chr(ord(c) + 0xFEE0) for c in key),
    ],
)
def test_a_key_that_was_packed_escaped_or_spread_is_removed_and_the_text_around_it_stays(form):
    kept = Secrets([KEY]).hide(f"HTTP 401: İ denied {form(KEY)} for user 7", 1000)
    assert kept.startswith("HTTP 401: İ denied ")
    assert kept.endswith(" for user 7")
    left = re.sub(r"[^0-9A-Za-z]", "", kept.removeprefix("HTTP 401: İ denied ").removesuffix(" for user 7"))
    assert len(left) <= 8, kept
    assert Secrets([KEY]).hide(kept, 1000) == kept


def test_text_without_a_key_stays_as_it_is():
    prose = "Réponse 3: C:\\new\\test, 100%25 of &amp; İ, aGVsbG8gd29ybGQgYWdhaW4= and deadbeefdeadbeef.\n\tEnd"
    assert Secrets([KEY]).hide(prose, 1000) == prose


def test_a_key_that_is_written_into_headers_or_the_address_is_a_secret_too():
    engine = OpenAIEngine(
        base_url="https://example.org/v1?version=2024-10-21&api_key=AIzaSyH3kQ9wLm",
        model="m",
        template="quality",
        api_key_env=None,
        headers={"Authorization": "Bearer xai-7Hk2Pw9Rt4Sv", "X-Title": "a panel of judges"},
    )
    hide = Secrets(headers_of("api", engine)[1]).hide
    text = "2024-10-21 Bearer xai-7Hk2Pw9Rt4Sv by a panel of judges, key AIzaSyH3kQ9wLm"
    assert hide(text) == "2024-10-21 Bearer *** by a panel of judges, key ***"


def test_what_the_environment_calls_a_key_is_hidden_and_a_path_is_not(monkeypatch):
    for name, value in {"MY_API_KEY": "gsk_5tRw8Yh2Nc", "KEY_FILE": "/home/me/key", "TOKENIZERS": "parallel"}.items():
        monkeypatch.setenv(name, value)
    assert Secrets.of_environment().hide("gsk_5tRw8Yh2Nc /home/me/key parallel") == "*** /home/me/key parallel"


def test_a_batch_is_begun_while_another_one_ends(vendor):
    """An answer of the second batch is sent only after questions of the third batch have arrived."""

    def slow_at_the_end(handler, body):
        if handler.server.bodies.index(body) == 14:
            wait_until(lambda: len(handler.server.bodies) > 22, seconds=20)
        handler.answer()

    server = vendor(slow_at_the_end)
    scores, _ = ask(server, 40, batch_size=10, concurrency=4, timeout_s=15.0, retries=0)
    assert all(score.status is Status.OK for score in scores)


def test_connections_are_as_many_as_requests_at_once(vendor):
    def together(handler, _body):
        is_first = len(server.bodies) == 1  # asked alone, to find the parameters that the model accepts
        wait_until(lambda: is_first or server.most_open >= 20)
        handler.answer()

    server = vendor(together)
    ask(server, 300, concurrency=24, batch_size=64)
    assert server.connections <= 24
    assert 20 <= server.most_open <= 24


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("120", 120.0),
        ("1.5", 1.5),
        ("-1", None),
        ("soon, please", None),
        ("9" * 60, None),
        ("٣", None),
    ],
    ids=range(6),
)
def test_every_form_of_a_waiting_time_is_read(text, wait):
    assert seconds(text) == wait


def test_a_date_to_wait_for_is_read():
    assert seconds(formatdate(time.time() + 300, usegmt=True)) == pytest.approx(300.0, abs=30.0)


def test_a_pause_of_minutes_is_kept_and_ends_with_the_judge(vendor, caplog):
    caplog.set_level(logging.INFO)
    server = vendor(lambda handler, _: handler.refuse("slow down", 429, {"retry-after": "240"}))
    engine = build_engine(judge(server, concurrency=4))
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(engine.score, [Item(f"i{k}", "q", f"It is {k}.") for k in range(20)])
        wait_until(lambda: "requests a pause of 240 s" in caplog.text, seconds=20)
        engine.close()
        with pytest.raises(JudgeError, match="was closed"):
            asked.result()
    assert len(server.bodies) <= 4, "nobody asked again before the time"


@pytest.mark.parametrize(
    ("code", "reply", "status"),
    [
        (200, {"error": {"code": 502, "message": "Provider returned error"}}, Status.OK),
        (200, {"error": {"code": 429, "message": "Rate limited"}}, Status.OK),
        (422, {"detail": [{"loc": ["body", "temperature"], "msg": "Extra inputs are not permitted"}]}, Status.OK),
        (400, {"error": {"message": "prompt is too long: 9 tokens", "param": "messages"}}, Status.TOO_LONG),
        (400, {"error": {"message": "The response was filtered", "code": "content_filter"}}, Status.REFUSED),
    ],
    ids=["OpenRouter", "OpenRouter's limit", "a field's place", "too long", "filtered"],
)
def test_errors_in_each_form_are_understood(vendor, code, reply, status):
    """The first request gets the error; the next request is answered if the error is temporary."""

    def once(handler, _body):
        if len(handler.server.bodies) == 1:
            return handler.send(code, reply)
        return handler.answer()

    assert ask(vendor(once), 1)[0][0].status is status


TEXT = 'Mrs. Holloway\'s account 4417 was closed, "at once",\nby her son: 口座は息子が閉じました、とのことです。'


@pytest.mark.parametrize("form", [str, json.dumps, lambda text: json.dumps(text, ensure_ascii=False)])
@pytest.mark.parametrize("code", [400, 500])
def test_an_error_is_shown_without_the_question_that_it_repeats(vendor, code, form):
    def repeating(handler, body):
        asked = body["messages"][0]["content"]
        handler.send(code, {"error": {"message": f"no such thing: {form(asked[asked.index(TEXT) :])}"}})

    with closing(build_engine(judge(vendor(repeating), retries=0), Context())) as engine:
        try:
            raw = engine.score([Item("a", "Why?", TEXT)])[0].raw
        except StoppedError as error:
            raw = str(error)
    assert "no such thing" in raw
    assert "***" in raw
    assert not [part for part in ("Holloway", "at once", "her son", "口座", "\\u53e3") if part in raw]


_WHOLE = {
    "model": "m",
    "choices": [
        {
            "message": {"content": "7", "refusal": None},
            "finish_reason": "stop",
            "logprobs": {"content": [{"token": "7", "top_logprobs": [{"token": "7", "logprob": -0.1}]}]},
        }
    ],
    "usage": {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101},
}
_JUNK = [
    None,
    True,
    0,
    -1,
    1e308,
    10**400,
    float("nan"),
    "",
    KEY,
    "x" * 900,
    [],
    {},
    [[]],
    [None],
    "\ud800",
    "[1," * 90,
]


def _places(value, place=()):
    yield place
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(inner, (*place, key))


def test_malformed_answers_get_a_status_and_do_not_leak_the_key(vendor):
    """Parts of responses are missing, have wrong values, are cut off, or are nested too deeply."""
    bodies = [b"[" * 100_000, b"", b"null", json.dumps(_WHOLE).encode()[:-40]]
    for place in list(_places(_WHOLE))[1:]:
        for junk in (..., *_JUNK):
            answer = copy.deepcopy(_WHOLE)
            holder = answer
            for key in place[:-1]:
                holder = holder[key]
            if junk is ...:
                del holder[place[-1]]
            else:
                holder[place[-1]] = junk
            bodies.append(json.dumps(answer).encode())

    def sending(handler, body):
        handler.send(200, bodies[number_of(body)])

    scores, version = ask(vendor(sending), len(bodies), retries=0, timeout_s=20.0)
    assert len(scores) == len(bodies) > 300
    assert {score.status for score in scores} >= {Status.OK, Status.ENGINE_ERROR, Status.PARSE_ERROR}
    assert KEY[8:14] not in repr(scores) + version
    assert all(len(score.raw or "") <= 500 for score in scores)
