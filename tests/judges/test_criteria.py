"""One question about several criteria, and one that is repeated: what is sent, what is read, and what that makes."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
from jsonschema import Draft202012Validator

from care_ops.errors import InputError
from judges.bill import Ledger
from judges.engines.base import Context
from judges.engines.factory import build_engine
from judges.items import Item, Status
from judges.parsing import parse_criteria
from judges.prompts import find
from judges.spec import JudgeSpec, OpenAIEngine
from tests.support.endpoints import PRICE_IN, PRICE_OUT, Vendor, number_of

PROMPT = """\
values: [1, 2, 3, 4, 5]
criteria: {helpfulness: does it help, correctness: is it true}
needs: [prompt, response]
instructions: Rate the answer from {{ low }} to {{ high }}.
item: |-
  Question: {{ prompt }}
  Answer: {{ response }}
"""
ITEMS = [Item(f"i{k}", "What is it?", f"It is {k}.") for k in range(20)]


@pytest.fixture
def vendor(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with ExitStack() as servers:
        yield lambda behave: servers.enter_context(Vendor(behave))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "answers.yaml").write_text(PROMPT)
    return tmp_path


def judge(server, template="answers/correctness", **more):
    prices = {"price_in": PRICE_IN, "price_out": PRICE_OUT, "retries": 1}
    engine = OpenAIEngine(base_url=server.url, model="judge-1", template=template, **(prices | more))
    return JudgeSpec(name="api", engine=engine)


def ask(spec, root, items=ITEMS, **context):
    engine = build_engine(spec, Context(root, **context))
    try:
        return engine.score(items)
    finally:
        engine.close()


def said(k):
    return {"helpfulness": k % 5 + 1, "correctness": 5 - k % 5}


def schema_of(body):
    """The schema that a request holds, in whichever form."""
    if "response_format" in body:
        assert body["response_format"]["type"] == "json_schema"
        return body["response_format"]["json_schema"]["schema"]
    if "output_config" in body:
        return body["output_config"]["format"]["schema"]
    return body.get("generationConfig", {}).get("responseJsonSchema")


def structured(handler, body):
    """Answers by the schema that it is sent, and by nothing else."""
    Draft202012Validator.check_schema(schema_of(body))
    answer = said(number_of(body))
    Draft202012Validator(schema_of(body)).validate(answer)
    return handler.answer(json.dumps(answer), tokens=(200, 12))


def unstructured(handler, body):
    """Has no schemas, and says so in one of the ways in which that is said; then writes JSON among other words."""
    if "response_format" in body:
        return handler.refuse("Invalid parameter: 'json_schema' is not supported with this model")
    return handler.answer(f"Sure, 3 things:\n```json\n{json.dumps(said(number_of(body)))}\n```", tokens=(200, 30))


def in_lines(handler, body):
    """Overlooks the schema, and writes a line for each criterion."""
    answer = said(number_of(body))
    return handler.answer(f"**Helpfulness**: {answer['helpfulness']}/5\n- correctness: {answer['correctness']}")


def thinking(handler, body):
    """Needs more tokens than it is first given, half way through its JSON."""
    if "temperature" in body or "max_tokens" in body:
        name = "temperature" if "temperature" in body else "max_tokens"
        return handler.refuse(f"Unsupported parameter: '{name}'", param=name)
    room = body["max_completion_tokens"]
    if room < 3_000:
        return handler.answer('{"helpfulness": 4, "corr', tokens=(200, room), finish="length")
    return handler.answer(json.dumps(said(number_of(body))), tokens=(200, 2_500))


def anthropic(handler, body):
    assert handler.path == "/v1/messages"
    assert "response_format" not in body
    Draft202012Validator(schema_of(body)).validate(said(number_of(body)))
    handler.bill((200, 12))
    parts = [{"type": "text", "text": json.dumps(said(number_of(body)))}]
    usage = {"input_tokens": 200, "output_tokens": 12}
    return handler.send(200, {"model": "m-1", "content": parts, "stop_reason": "end_turn", "usage": usage})


def google(handler, body):
    settings, text = body["generationConfig"], body["contents"][0]["parts"][0]["text"]
    assert "response_format" not in body
    assert settings["responseMimeType"] == "application/json"
    k = number_of({"messages": [{"content": text}]})
    Draft202012Validator(schema_of(body)).validate(said(k))
    handler.bill((200, 12))
    candidate = {"content": {"parts": [{"text": json.dumps(said(k))}]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 200, "candidatesTokenCount": 12}
    return handler.send(200, {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m-1"})


@pytest.mark.parametrize("kind", [structured, unstructured, in_lines, thinking, anthropic, google])
def test_one_call_scores_every_criterion_whatever_the_endpoint_takes(vendor, root, kind):
    server, ledger = vendor(kind), Ledger()
    form = kind.__name__ if kind in (anthropic, google) else None
    scores = ask(judge(server, form=form), root, ledger=ledger)
    assert [score.status for score in scores] == [Status.OK] * 20
    for k, score in enumerate(scores):
        assert score.score == said(k)["correctness"]
        assert json.loads(score.p_json) == {name: [value] for name, value in said(k).items()}
    assert ledger.total.dollars == pytest.approx(server.dollars)
    if kind is not thinking:
        assert len(server.bodies) - server.refused == 20, "one call for each item, whatever the number of criteria"


def test_a_refused_schema_is_learned_once_and_kept(vendor, root, tmp_path):
    server = vendor(unstructured)
    ask(judge(server), root, learned=tmp_path / "learned")
    ask(judge(server, "answers/helpfulness"), root, learned=tmp_path / "learned")
    assert server.refused == 1
    assert len(server.bodies) == 41


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"helpfulness": 4, "correctness": 2}', (4.0, 2.0)),
        ('{"helpfulness": "4/5", "correctness": "2 of 5, since 3 claims are wrong"}', (4.0, 2.0)),
        ('{"helpfulness": 4}', (4.0, None)),
        ('{"helpfulness": 9, "correctness": 2}', (None, 2.0)),
        ('{"helpfulness": {"score": 4, "reason": "lists 3 facts"}, "correctness": true}', (None, None)),
        ('{"helpfulness": NaN, "correctness": [2]}', (None, None)),
        ("Helpfulness: 4\nCorrectness: 2", (4.0, 2.0)),
        ("I rate 3 of 5 aspects: 4, 2", (None, None)),
        ("", (None, None)),
        (None, (None, None)),
        ("{" * 100_000, (None, None)),
        ("\n" * 100_000 + "correctness: 2", (None, 2.0)),
    ],
)
def test_a_criterion_is_read_or_missing_and_never_guessed(text, expected):
    answers = {str(k): float(k) for k in range(1, 6)}
    read = parse_criteria(text, ("helpfulness", "correctness"), answers)
    assert (read["helpfulness"][0], read["correctness"][0]) == expected
    assert all((score is None) == (status is not Status.OK) for score, status in read.values())


def test_a_missing_criterion_does_not_affect_the_others(vendor, root):
    server = vendor(lambda handler, body: handler.answer('{"helpfulness": 4, "correctness": "none"}'))
    (lacking,) = ask(judge(server), root, ITEMS[:1])
    (there,) = ask(judge(server, "answers/helpfulness"), root, ITEMS[:1])
    assert (lacking.score, lacking.status) == (None, Status.PARSE_ERROR)
    assert (there.score, there.status) == (4.0, Status.OK)
    assert json.loads(lacking.p_json) == json.loads(there.p_json) == {"helpfulness": [4.0], "correctness": [None]}


def test_a_prompt_of_several_criteria_is_named_with_one_of_them(root):
    for name in ("answers", "answers/politeness", "quality/helpfulness"):
        with pytest.raises(InputError, match=r"names one of (answers/helpfulness, answers/correctness|quality)$"):
            find(name, root / "prompts")


def test_criteria_of_one_question_have_different_keys(root):
    one, other = (find(f"answers/{name}", root / "prompts") for name in ("helpfulness", "correctness"))
    assert one.revision != other.revision
    assert one.question == other.question
    assert one.render(ITEMS[0], None) == other.render(ITEMS[0], None)


def test_pairs_are_rated_by_each_criterion_in_both_orders(vendor, root):
    text = PROMPT.replace("values:", "pairwise: true\nvalues:") + "  Other: {{ response_2 }}\n"
    (root / "prompts" / "answers.yaml").write_text(text)

    def first_longer(handler, body):
        first = body["messages"][0]["content"].index("short") > body["messages"][0]["content"].index("rather")
        return handler.answer(json.dumps({"helpfulness": 1 if first else 5, "correctness": 3}))

    pair = Item("p", "Which?", "short", "rather long")
    (score,) = ask(judge(vendor(first_longer), "answers/helpfulness"), root, [pair])
    assert (score.score, score.order) == (2.0, "both")
    assert json.loads(score.p_json) == {"helpfulness": [2.0], "correctness": [0.0]}


def changing(grades):
    """Gives an item other grades from asking to asking."""

    def behave(handler, body):
        k = number_of(body)
        with handler.server.lock:
            n = handler.server.state[k] = handler.server.state.get(k, -1) + 1
        return handler.answer(grades(k, n))

    return behave


def test_a_repeated_question_gives_its_mean_and_all_of_its_grades(vendor, root):
    server, ledger = vendor(changing(lambda k, n: str(6 + n * (k % 4 == 0)))), Ledger()
    scores = ask(judge(server, "quality", repeats=3, scoring="text"), root, ledger=ledger)
    assert len(server.bodies) == 60
    assert ledger.total.dollars == pytest.approx(server.dollars)
    for k, score in enumerate(scores):
        assert sorted(json.loads(score.p_json)["score"]) == ([6.0, 7.0, 8.0] if k % 4 == 0 else [6.0] * 3)
        assert score.score == pytest.approx(7.0 if k % 4 == 0 else 6.0)
        assert score.tokens_in == 300


def test_a_repeat_that_gives_nothing_leaves_the_mean_of_the_others(vendor, root):
    server = vendor(changing(lambda k, n: "no idea" if n == 1 or k == 3 else str(6 + n)))
    scores = ask(judge(server, "quality", repeats=3, scoring="text"), root, ITEMS[:4])
    assert [score.score for score in scores] == [7.0, 7.0, 7.0, None]
    assert [score.status for score in scores] == [*[Status.OK] * 3, Status.PARSE_ERROR]
    assert json.loads(scores[3].p_json) == {"score": [None] * 3}


def test_repeats_make_another_judge_and_once_is_no_setting(root):
    class Server:
        url = "http://localhost:1/v1"

    plain, thrice = (judge(Server, "quality", **more).key("r") for more in ({}, {"repeats": 3}))
    assert plain == judge(Server, "quality", repeats=1).key("r") != thrice


def test_the_temperature_that_a_file_declares_is_sent_in_every_form(vendor, root):
    for kind, form in ((structured, None), (anthropic, "anthropic"), (google, "google")):
        server = vendor(kind)
        ask(judge(server, form=form, extra_body={"temperature": 0.7}), root, ITEMS[:1])
        (body,) = server.bodies
        assert {**body, **body.get("generationConfig", {})}["temperature"] == 0.7
