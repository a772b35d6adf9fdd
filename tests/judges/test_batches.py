"""Tests of judges that ask by batch files: each question is paid once, also after kills at any step."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import closing, contextmanager, suppress
from functools import lru_cache

import pytest

from assets.judging.batches import batch_messages, open_batches
from assets.judging.bill import Account, purses
from assets.judging.judge_inference import score_pending
from assets.judging.stored_items import StoredItems
from care_ops.errors import JudgeError
from judges.engines import batches as by_file
from judges.engines.endpoint import Endpoint
from judges.pool import Pool
from judges.spec import OpenAIEngine
from orchestration.workspace import load_workspace
from tests.support.openai_server import Server, answer
from tests.support.workspaces import make, run, statuses, write_api_judge, write_table
from warehouse import storage

N = 40
PRICES = {"price_in": 1.0, "price_cached": 1.0, "price_out": 5.0}
"""Half of the server's prices."""


@pytest.fixture
def server(endpoint):
    return endpoint


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Create a workspace whose items are stored."""
    folder = make(tmp_path_factory.mktemp("made") / "ws", (), N)
    assert not run(folder, selection="items").failures
    return folder


@pytest.fixture
def folder(made, tmp_path, server):
    folder = shutil.copytree(made, tmp_path / "ws")
    write(folder, server)
    return folder


def write(folder, server, *, batch=True, **more):
    options = {"scoring": "text", "batch": batch, "retries": 0, **PRICES, **more}
    write_api_judge(folder, server.url, judge="batch_size: 10\n", **options)


def ask(folder):
    """Run ``judge_inference`` for one judge."""
    workspace = load_workspace(folder)
    with closing(Account(workspace, "api", purses(workspace))) as account, Pool(workspace.pool).session() as session:
        read = lru_cache(lambda testset: StoredItems(workspace.parts, testset))
        score_pending(workspace, "api", read, session, account)


def billed(folder):
    rows = load_workspace(folder).bills.read().to_pylist()
    names = ("tokens_in", "tokens_out", "dollars", "dollars_unknown", "requests", "questions")
    return {name: sum(row[name] for row in rows) for name in names}


def sent(folder):
    return open_batches(load_workspace(folder), "api", "one")


def collects_all(folder, server, paid=1):
    """Answer the open batches, and check that a run collects all scores, for which each question is paid so often."""
    server.work()
    ask(folder)
    assert statuses(folder) == {"ok": N}
    assert set(server.paid.values()) == {paid}


def questions(folder):
    source = StoredItems(load_workspace(folder).parts, "one")
    return len(set(source.text_keys))


def test_one_run_sends_and_the_next_collects(folder, server):
    ask(folder)
    count = questions(folder)
    (batch,) = sent(folder)
    assert len(server.requests) == 1, "one question first, to learn what the model takes"
    assert statuses(folder).total() == N - batch.items
    assert (batch.questions, len(batch.lines), batch.batch_id) == (count - 1, count - 1, "batch-0")
    assert server.batches["batch-0"]["metadata"] == {"care": batch.token}
    (message,) = batch_messages(load_workspace(folder))
    assert f"judge api: a batch of {count - 1} questions on one has been open since" in message
    assert f"(batch-0), 0 of {count - 1} requests done; `care run` collects the responses" in message
    server.batches["batch-0"]["request_counts"]["completed"] = 9
    for _ in range(2):
        ask(folder)
    assert f"9 of {count - 1} requests done" in batch_messages(load_workspace(folder))[0]
    assert len(server.batches) == 1
    collects_all(folder, server)
    assert sent(folder) == []
    assert len(server.paid) == count
    books = billed(folder)
    first = 100 * 1.0 / 1e6 + 1 * 5.0 / 1e6  # by the prices of files, which are those of the judge's own file
    assert (books["tokens_in"], books["tokens_out"]) == tuple(server.tokens)
    assert books["dollars"] == pytest.approx(server.dollars - first)
    assert books["requests"] == books["questions"] == count
    ask(folder)
    assert len(server.batches) == 1


class Killed(BaseException):
    """Exception for the end of the process."""


@contextmanager
def killed_at(step):
    """Raise ``Killed`` before or after the n-th request, write or deletion."""
    count, patch = [0], pytest.MonkeyPatch()

    def tick():
        count[0] += 1
        if count[0] >= step:  # nothing is sent or written after that
            raise Killed

    opened, replacing, delete = Endpoint._opened, storage.replacing, storage.delete

    @contextmanager
    def sending(self, *words, **more):
        tick()
        with opened(self, *words, **more) as response:
            response.read()
            response.iter_stream = lambda: iter([response.content])
            tick()
            yield response

    @contextmanager
    def writing(path):
        tick()
        with replacing(path) as temporary:
            yield temporary
        tick()

    def deleting(path):
        tick()
        delete(path)
        tick()

    patch.setattr(Endpoint, "_opened", sending)
    patch.setattr(storage, "replacing", writing)
    patch.setattr(storage, "delete", deleting)
    try:
        yield
    finally:
        patch.undo()


@pytest.mark.slow
def test_killed_at_any_step_it_pays_once(made, tmp_path, monkeypatch):
    """The kills happen while batches are sent and collected; other batches fill the server's first page."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    step, alive = 0, 0
    while alive < 2:
        step += 1
        alive = 0
        folder = shutil.copytree(made, tmp_path / f"ws{step}")
        with Server(lambda *_: answer("7")) as server:
            server.batches |= {f"other-{k}": {"id": f"other-{k}", "status": "completed"} for k in range(3)}
            write(folder, server)
            for _ in ("sends", "collects"):
                with killed_at(step), suppress(Killed):
                    ask(folder)
                    alive += 1
                ask(folder)
                server.work()
            ask(folder)
            assert statuses(folder) == {"ok": N}, step
            assert sent(folder) == [], step
            assert set(lines_of(server).values()) == {1}, step
            assert len(lines_of(server)) in (len(server.paid), len(server.paid) - 1), step
            twice = sum(server.paid.values()) - len(server.paid)  # the question that is asked separately at first
            assert twice in (0, 1), step
            assert server.tokens[0] - billed(folder)["tokens_in"] in (0, 100 * twice), step
    assert step > 16


def lines_of(server):
    """Return the texts uploaded in files, with repetitions."""
    files = [server.files[batch["input_file_id"]] for batch in server.batches.values() if "input_file_id" in batch]
    lines = [json.loads(line) for file in files for line in file.splitlines()]
    return Counter(line["body"]["messages"][0]["content"] for line in lines)


def test_what_expired_is_asked_again_and_what_came_counts(folder, server):
    count = questions(folder)
    ask(folder)
    server.work(most=count - 6, status="expired")
    ask(folder)
    assert set(statuses(folder)) == {"ok", "timeout"}
    assert sent(folder) == [], "what expired is asked again at the next run"
    ask(folder)
    (batch,) = sent(folder)
    assert batch.questions == 5
    collects_all(folder, server)
    assert billed(folder)["tokens_in"] == server.tokens[0]


def test_a_batch_of_which_nothing_came_stops_the_judge_and_is_asked_again(folder, server):
    ask(folder)
    server.work(most=0, status="expired")
    with pytest.raises(JudgeError, match=r"items of a batch failed \(\d+ timeout"):
        ask(folder)
    assert sent(folder) == []
    ask(folder)
    collects_all(folder, server)


def test_each_line_is_read_as_any_other_answer(folder, server):
    count = questions(folder)
    texts = []

    def say(text, attempt):
        if not texts or text not in texts:
            texts.append(text)
        k = texts.index(text)
        if k == 3:
            return 400, json.dumps({"error": {"code": "content_filter", "message": "blocked by content policy"}})
        if k == 4:
            return answer("no idea")
        if k == 5 and attempt == 1:
            return 500, json.dumps({"error": {"message": "a moment"}})
        if k == 6 and attempt == 1:
            return {**answer(""), "choices": [{"message": {"content": ""}, "finish_reason": "length"}]}
        if k == 7:
            return {**answer("7"), "usage": None} | {"usage": {"prompt_tokens": 100, "completion_tokens": 1}}
        return answer("7")

    server.say = say
    ask(folder)
    server.work()
    ask(folder)
    (batch,) = sent(folder)
    assert batch.questions == 1, "the one that was cut off has more room now"
    assert batch.body["max_tokens"] > 16
    assert {"ok", "refused", "parse_error", "engine_error"} == set(statuses(folder))
    server.work()
    ask(folder)
    server.work()
    ask(folder)
    left = statuses(folder)
    assert set(left) == {"ok", "refused", "parse_error"}
    assert sorted(server.paid.values()) == [1] * (count - 2) + [2]
    assert billed(folder)["tokens_in"] == server.tokens[0]


def test_a_pair_of_which_half_came_pays_that_half_once(tmp_path, server):
    folder = make(tmp_path / "ws", (), 1)
    rows = [(f"i{k}", "What?", f"one {k}", f"two {k}") for k in range(8)]
    write_table(folder / "one.csv", ("item_id", "question", "a", "b"), rows)
    (folder / "testsets" / "one.yaml").write_text(
        "source:\n  kind: files\n  items: one.csv\n  columns: {prompt: question, response: a, response_2: b}\n"
        "prompt: preference\nscale: [-3, 3]\n"
    )
    assert not run(folder, selection="items").failures
    write_api_judge(folder, server.url, template="preference", scoring="text", batch=True, **PRICES)
    server.say = lambda *_: answer("4")
    ask(folder)
    (batch,) = sent(folder)
    assert (batch.questions, len(batch.lines)) == (7, 14)
    server.work(most=9, status="expired")
    ask(folder)
    assert statuses(folder) == {"ok": 6, "timeout": 2}
    assert set(server.paid.values()) == {1}
    assert billed(folder)["tokens_in"] == server.tokens[0]


def test_items_with_equal_prompts_are_one_line(tmp_path, server):
    folder = make(tmp_path / "ws", (), 1)
    rows = [(f"i{k}", "What?", f"answer {k // 2}", f"reference {k}") for k in range(12)]
    write_table(folder / "one.csv", ("item_id", "question", "answer", "label"), rows)
    (folder / "testsets" / "one.yaml").write_text(
        "source:\n  kind: files\n  items: one.csv\n  columns: {prompt: question, response: answer, reference: label}\n"
    )
    assert not run(folder, selection="items").failures
    write(folder, server)
    ask(folder)
    server.work()
    ask(folder)
    assert statuses(folder) == {"ok": 12}
    assert sum(server.paid.values()) <= 7, "six prompts; one may be asked first and again in the file"


def test_files_are_split(folder, server, monkeypatch):
    monkeypatch.setattr(by_file, "MOST_LINES", 7)
    ask(folder)
    sizes = [len(batch.lines) for batch in sent(folder)]
    assert sizes == [7] * (len(sizes) - 1) + [sizes[-1]]
    assert sum(sizes) == questions(folder) - 1
    assert set(lines_of(server).values()) == {1}
    collects_all(folder, server)


def test_the_highest_cost_of_a_file_is_reserved_before_it_is_sent(folder, server):
    write(folder, server, spend_limit=0.004)
    with pytest.raises(JudgeError, match="spend_limit in its file"):
        ask(folder)
    (batch,) = sent(folder)
    assert 0 < batch.worst <= 0.004
    assert 0 < batch.questions < questions(folder) - 1
    with (folder / "care.yaml").open("a") as file:
        file.write("judging: {spend_limit: 0.005}\n")
    with pytest.raises(JudgeError, match=r"spend_limit in care\.yaml"):
        ask(folder)
    assert sum(batch.worst for batch in sent(folder)) <= 0.005, "what is at the endpoint counts as spent"
    server.work()
    for _ in range(6):
        with pytest.raises(JudgeError, match="spend_limit"):
            ask(folder)
        server.work()
        assert server.dollars / 2 <= 0.005


def test_requests_that_were_never_answered_teach_nothing_about_the_model(folder, server):
    write(folder, server, spend_limit=0.00001)
    with pytest.raises(JudgeError, match="spend_limit in its file"):
        ask(folder)
    assert server.requests == []
    server.refuses = ("temperature",)
    write(folder, server)
    ask(folder)
    assert len(server.requests) == 2, "one question first, still"
    (batch,) = sent(folder)
    assert "temperature" not in batch.body


def test_an_endpoint_without_batches_is_reported(folder, server):
    server.has_batches = False
    with pytest.raises(JudgeError, match=r"HTTP 404 for POST /files .*remove `batch` from the judge's file"):
        ask(folder)
    assert sent(folder) == []
    write(folder, server, batch=False)
    ask(folder)
    assert statuses(folder) == {"ok": N}
    assert set(server.paid.values()) == {1}, "the judge is the same, and pays nothing again"


def test_a_judge_that_no_longer_asks_by_files_waits_for_the_open_one(folder, server):
    ask(folder)
    write(folder, server, batch=False)
    ask(folder)
    assert len(server.requests) == 1
    collects_all(folder, server)


def test_a_refused_file_is_reported_and_sent_again(folder, server):
    ask(folder)
    server.batches["batch-0"] |= {"status": "failed", "errors": {"data": [{"message": "too many enqueued tokens"}]}}
    with pytest.raises(JudgeError, match=r"the endpoint refused batch batch-0 \(.*too many enqueued tokens"):
        ask(folder)
    ask(folder)
    assert sent(folder)[0].batch_id == "batch-1"


def test_a_batch_that_the_endpoint_no_longer_knows_is_left_to_a_person(folder, server):
    ask(folder)
    del server.batches["batch-0"]
    with pytest.raises(JudgeError, match=r"404 for GET /batches/batch-0 .* delete .*batch\.\w+\.json and run again"):
        ask(folder)
    assert len(sent(folder)) == 1


def test_a_damaged_record_of_a_batch_is_not_paid_again(folder, server):
    ask(folder)
    (path,) = (folder / "data/parts/scores").rglob("batch.*.json")
    path.write_text(path.read_text()[:-40])
    with pytest.raises(JudgeError.__mro__[1], match="would pay again for lost scores"):
        ask(folder)
    assert len(server.batches) == 1


def test_a_changed_judge_bills_the_open_batch_and_asks_again(folder, server):
    ask(folder)
    write(folder, server, reasoning_effort="low")
    server.work()
    ask(folder)
    assert billed(folder)["tokens_in"] == server.tokens[0]
    (batch,) = sent(folder)
    assert batch.questions == questions(folder)  # what the model takes is known


def test_prices_of_files_are_half_of_the_tables_by_default(server):
    def engine(**more):
        return OpenAIEngine(base_url="https://api.openai.com/v1", model="gpt-5-mini", batch=True, **more)

    price = engine().batch_price
    assert (price.read, price.cached, price.written) == (0.125, 0.0125, 1.0)
    assert "0.5 of litellm" in price.source
    assert engine(price_in=1.0, price_out=2.0).batch_price.read == 1.0
    assert engine().key_content() == engine().model_copy(update={"batch": False}).key_content()
    with pytest.raises(ValueError, match="batch: CARE sends no batch files to the API of google"):
        engine(form="google")


def test_repeats_are_separate_lines_and_the_score_is_their_mean(folder, server):
    write(folder, server, repeats=3)
    ask(folder)
    count = questions(folder)
    (batch,) = sent(folder)
    assert len(server.requests) == 3, "one question first, as often as every other"
    assert len(batch.lines) == len(set(batch.lines)) == 3 * (count - 1)
    collects_all(folder, server, paid=3)
    kept = load_workspace(folder).parts.read_scores("api", "one", ("score", "p_json")).to_pylist()
    assert all(json.loads(row["p_json"]) == {"score": [7.0] * 3} and row["score"] == 7.0 for row in kept)
    ask(folder)
    assert (len(server.batches), len(server.requests)) == (1, 3)
