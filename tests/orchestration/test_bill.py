"""Tests that the bill of a run in the database and in commands equals the servers' records."""

from __future__ import annotations

import re
from contextlib import ExitStack
from datetime import UTC, date, datetime

import dagster as dg
import pytest

from assets.judging.bill import bills, latest_bill_message
from assets.state.rebuild import rebuild_warehouse
from judges.prices import listed
from judges.spec import OpenAIEngine
from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.endpoints import Vendor, number_of, reasoning_model
from tests.support.workspaces import care, care_json, make, query, run, write_api_judge

N = 40
PRICES = {"thinker": (3.0, 0.3, 15.0), "cached": (2.0, 0.5, 8.0), "stormy": (1.0, 1.0, 4.0)}


class Books(Vendor):
    """Vendor that records each answer (tokens read, read from its cache, written) and each refusal."""

    def __init__(self, behave):
        super().__init__(behave)
        self.entries, self.too_many, self.texts = [], 0, {}

    def dollars_at(self, read, cached, written):
        return sum((i - c) * read + c * cached + o * written for i, c, o, _ in self.entries) / 1e6


def thinking(handler, body):
    """Answer as ``reasoning_model``, and report reasoning tokens separately."""
    send = type(handler).send

    def noting(code, content, *more):
        if code == 200:
            usage = content["usage"]
            usage["completion_tokens_details"] = {"reasoning_tokens": usage["completion_tokens"] - 1}
            entry = usage["prompt_tokens"], 0, usage["completion_tokens"], usage["completion_tokens"] - 1
            handler.server.entries.append(entry)
        send(handler, code, content, *more)

    handler.send = noting
    reasoning_model(handler, body)


def remembering(handler, body):
    """Answer with most of a prompt read from the cache, because later prompts begin like the first."""
    cached = 80 if handler.server.entries else 0
    handler.server.entries.append((100 + number_of(body) % 3, cached, 2, 0))
    usage = {"prompt_tokens": 100 + number_of(body) % 3, "completion_tokens": 2}
    usage["prompt_tokens_details"] = {"cached_tokens": cached}
    message = {"role": "assistant", "content": str(number_of(body) % 10)}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    handler.send(200, {"model": "m", "choices": choices, "usage": usage})


def stormy(handler, body):
    """Refuse each question once with status 429."""
    text = body["messages"][0]["content"]
    with handler.server.lock:
        seen = handler.server.texts[text] = handler.server.texts.get(text, 0) + 1
    if seen == 1:
        handler.server.too_many += 1
        return handler.refuse("slow down", 429, {"retry-after": "0"})
    handler.server.entries.append((100, 0, 1, 0))
    return handler.answer(str(number_of(body) % 9))


@pytest.fixture
def panel(tmp_path, monkeypatch):
    """Create a workspace with three paid judges and a program without cost."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    folder = make(tmp_path / "ws", ("length",), N)
    with ExitStack() as stack:
        behaviours = {"thinker": thinking, "cached": remembering, "stormy": stormy}
        servers = {name: stack.enter_context(Books(behave)) for name, behave in behaviours.items()}
        for name, server in servers.items():
            prices = dict(zip(("price_in", "price_cached", "price_out"), PRICES[name], strict=True))
            write_api_judge(folder, server.url, name, scoring="text", **prices)
        yield folder, servers


def test_the_recorded_costs_equal_those_of_the_server(panel):
    folder, servers = panel
    forecast = {row["judge"]: row["dollars"] for row in care_json(folder, "run", "--dry-run")}
    care(folder, "run", "--select", "group:inputs or group:judging")
    reported = {row["judge"]: row for row in bills(load_workspace(folder))}
    assert set(reported) == {*servers, "length"}
    for name, server in servers.items():
        row, books = reported[name], list(zip(*server.entries, strict=True))
        counted = (row["tokens_in"], row["tokens_cached"], row["tokens_out"], row["tokens_reasoning"])
        assert counted == tuple(sum(column) for column in books)
        assert row["dollars"] == pytest.approx(server.dollars_at(*PRICES[name]), abs=1e-12)
        assert row["dollars_unknown"] == 0
        assert (row["requests"], row["refused"]) == (len(server.bodies), server.too_many)
        distinct = {body["messages"][0]["content"] for body in server.bodies}
        assert row["questions"] == len(distinct)
        assert row["repeated"] == len(server.bodies) - len(distinct)
        assert row["forecast_dollars"] == pytest.approx(forecast[name])
        assert 0 < row["p50_ms"] <= row["p95_ms"]
    assert reported["cached"]["tokens_cached"] > 0 < reported["thinker"]["tokens_reasoning"]
    assert reported["stormy"]["refused"] == reported["stormy"]["questions"]
    assert reported["length"]["dollars"] == reported["length"]["tokens_in"] == 0 < reported["length"]["questions"]
    total = sum(server.dollars_at(*PRICES[name]) for name, server in servers.items())
    assert query(folder, "SELECT sum(dollars) FROM bills WHERE testset = 'one'")[0][0] == pytest.approx(total)
    message = latest_bill_message(load_workspace(folder))
    assert f"US $ {total:,.4f}" in message
    assert " ".join(message.split()) in " ".join(care(folder, "status").split())
    dollars = {row["judge"]: row["dollars"] for row in care_json(folder, "status")}
    assert dollars["cached"] == pytest.approx(reported["cached"]["dollars"])
    (day,) = care_json(folder, "history")
    assert (day["failed"], day["tokens_in"]) == (0, sum(row["tokens_in"] for row in reported.values()))
    assert day["seconds"] == pytest.approx(seconds_of_steps(folder), abs=1e-4)
    assert day["dollars"] == pytest.approx(total)
    load_workspace(folder).warehouse.remove()
    rebuild_warehouse(load_workspace(folder))
    assert {row["judge"]: row for row in bills(load_workspace(folder))} == reported, (
        "a database that is made anew has it, too"
    )


def seconds_of_steps(folder):
    """Return the seconds of all steps by Dagster's events."""
    kinds, seconds = dg.DagsterEventType, 0.0
    with workspace_instance(load_workspace(folder)) as instance:
        for record in instance.get_run_records():
            for entry in instance.all_logs(record.dagster_run.run_id):
                kind = None if entry.dagster_event is None else entry.dagster_event.event_type
                seconds += entry.timestamp * ((kind is kinds.STEP_SUCCESS) - (kind is kinds.STEP_START))
    return seconds


@pytest.mark.slow
def test_the_forecast_in_the_cost_record_covers_the_questions_asked(panel):
    """Two runs of a day ask the judges about half of the items each."""
    folder, servers = panel
    (forecast,) = [row["dollars"] for row in care_json(folder, "run", "--dry-run") if row["judge"] == "cached"]
    everything = (folder / "one.csv").read_text()
    (folder / "one.csv").write_text("\n".join(everything.splitlines()[:21]) + "\n")
    run(folder, judge="cached")
    (half,) = bills(load_workspace(folder), judge="cached")
    asked = len(servers["cached"].bodies)
    (folder / "one.csv").write_text(everything)
    (rest,) = [row["dollars"] for row in care_json(folder, "run", "--dry-run") if row["judge"] == "cached"]
    run(folder, judge="cached")
    (row,) = bills(load_workspace(folder), judge="cached")
    assert 0 < asked < len(servers["cached"].bodies) == row["questions"]
    assert row["forecast_dollars"] == pytest.approx(half["forecast_dollars"] + rest)
    assert half["forecast_dollars"] < forecast


def test_a_run_spends_no_more_than_the_workspace_allows(panel):
    folder, servers = panel
    with (folder / "care.yaml").open("a") as file:
        file.write("judging: {spend_limit: 0.02}\n")
    judging = "key:items or key:judge_inference"
    outcome = run(folder, selection=judging)
    failed = {name: why for (_, name), why in outcome.failures.items()}
    assert failed
    assert all("judging.spend_limit in care.yaml" in why for why in failed.values())
    assert 0 < sum(server.dollars_at(*PRICES[name]) for name, server in servers.items()) <= 0.02
    before = sum(len(server.entries) for server in servers.values())
    run(folder, selection=judging)
    assert sum(len(server.entries) for server in servers.values()) - before < before, "the day is the same"
    assert sum(server.dollars_at(*PRICES[name]) for name, server in servers.items()) <= 0.02


def test_a_run_past_midnight_is_in_the_latest_costs(tmp_path):
    workspace = load_workspace(make(tmp_path / "ws", ("length",), 3))
    row = {"testset": "one", "what": "items", "began": datetime(2026, 1, 1, 23, 50, tzinfo=UTC), "requests": 1}

    def paid(run_date, judge):
        rows = [row | {"run_date": date.fromisoformat(run_date), "judge": judge}]
        workspace.bills.write(run_date, judge, judge, rows)
        with workspace.warehouse.writer() as connection:
            workspace.bills.load(connection, run_date)

    paid("2026-01-02", "quick")
    paid("2026-01-01", "slow")
    assert query(workspace.root, "SELECT run_date::VARCHAR, judge FROM askings ORDER BY run_date") == [
        ("2026-01-01", "slow"),
        ("2026-01-02", "quick"),
    ]


def test_prices_come_from_the_judges_file_or_the_dated_table():
    def engine(**more):
        return OpenAIEngine(**{"base_url": "https://api.openai.com/v1", "model": "gpt-5-mini"} | more)

    price = listed("https://api.openai.com/v1", "gpt-5-mini")
    assert (price.read, price.cached, price.written) == (0.25, 0.025, 2.0)
    assert re.fullmatch(r"litellm \d+\.\d+\.\d+ of \d{4}-\d\d-\d\d", price.source)
    assert engine().price == price
    own = engine(price_in=1.0, price_out=2.0).price
    assert (own.read, own.cached, own.written, own.source) == (1.0, 1.0, 2.0, "the judge's file")
    assert own.of(1e6, 1e6, 5e5) == 3.0
    assert engine(base_url="http://127.0.0.1:8000/v1").price is None, "the same name elsewhere costs something else"
    with pytest.raises(ValueError, match="price_cached: price_in and price_out are missing"):
        engine(price_cached=1.0)
