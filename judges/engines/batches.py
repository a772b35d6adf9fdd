"""Engine for OpenAI's Batch API: one run sends batch files, and a later run collects the answers.

A batch is recorded before it is sent, and its metadata contain a unique token. If the id of the batch was not recorded,
the next run finds the batch by the token. The record is deleted after the answers are stored. Therefore no request is
paid for twice, even if the process is killed.
"""

import json
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from judges.batch import Batch, BatchStore
from judges.bill import Bill
from judges.engines.base import Context
from judges.engines.endpoint import NoAnswerError, Reply
from judges.engines.openai import (
    NOT_ASKED,
    CutOffError,
    NotAskedError,
    OpenAIJudgeEngine,
    RefusedError,
    TemporaryError,
    paid_for,
)
from judges.engines.pace import backoff
from judges.engines.prompted import PromptAnswer, PromptedJudgeEngine
from judges.items import MAY_PASS, Item, Score, Status
from judges.questions import Batches
from judges.spec import JudgeSpec, OpenAIEngine

MOST_LINES, MOST_BYTES = 50_000, 100 * 2**20
"""Maximum number of lines and bytes in a batch file; CARE holds the whole file in memory."""

_TRANSFER_S = 900.0
_MOST_PAGES = 1_000
"""Maximum number of pages that CARE reads of the endpoint's list of batches, with 100 batches per page."""

_ENDED = ("completed", "expired", "cancelled")
_FATE_UNKNOWN = (0, 408, 409, 425)
_CHAT = "/v1/chat/completions"
_TOKEN = "care"


@dataclass
class _File:
    text: bytearray = field(default_factory=bytearray)
    lines: list[str] = field(default_factory=list[str])
    items: int = 0
    questions: int = 0
    worst: float = 0.0
    body: dict[str, Any] = field(default_factory=dict[str, Any])


class BatchJudgeEngine(OpenAIJudgeEngine):
    """Engine that collects answers of finished batches, and sends new batches if the judge's file sets ``batch``."""

    def __init__(self, spec: JudgeSpec, engine: OpenAIEngine, context: Context, store: BatchStore) -> None:
        super().__init__(spec, engine, context)
        self._store = store
        self._batch_price = engine.batch_price or self._price
        self._collected: dict[str, PromptAnswer] = {}
        self._waiting = set[str]()
        self._file, self._place = _File(), ""

    def run(self, batches: Batches) -> Iterator[list[Score]]:
        """Yield the scores of answered questions, and send the other questions until the run is stopped.

        Raises
        ------
        StoppedError
            If the endpoint cannot be reached, has no Batch API or refuses the request, or the spend limit is reached.
        """
        ended = self._collect()
        for items in batches:
            known, fresh = self._sorted(items)
            going_on = not (self._stopped or batches.stopped)
            is_probe = not self._dialect.tried  # one question shows which parameters the model accepts
            now = fresh[: int(is_probe) if self._engine.batch else None] if going_on else []
            scores = PromptedJudgeEngine.score(self, [*known, *now])
            self._ledger.add(Bill(questions=len(now)))
            if now and self._dialect.tried:
                self._dialect.keep()  # later runs need not send a single question first
            if scores := [score for score in scores if score.raw != NOT_ASKED]:
                yield scores
            for item in fresh[len(now) :]:
                if not (self._stopped or batches.stopped or self._empty):
                    self._write(item, batches.questions.members(item))
        if not batches.stopped:
            self._send()
        for batch in ended:
            self._store.remove(batch)
        self.raise_if_stopped()

    def ask(self, prompts: Sequence[str]) -> list[PromptAnswer]:
        """Return the answer to each prompt; send a separate request for each prompt whose answer is not collected."""
        found = [self._collected.get(name) for name in self._names_of(prompts)]
        missing = [prompt for prompt, answer in zip(prompts, found, strict=True) if answer is None]
        with ThreadPoolExecutor(self._engine.concurrency) as threads:
            asked = threads.map(self.ask_one, missing)
            return [next(asked) if answer is None else answer for answer in found]

    def _names_of(self, prompts: Sequence[str]) -> Iterator[str]:
        """Yield the id of each request: a hash of the judge's key, the prompt, and the number of the repeat."""
        seen = Counter[str]()
        for prompt in prompts:
            content = f"{self._store.key} {self.text_of(prompt)}" + f" {seen[prompt]}" * bool(seen[prompt])
            seen[prompt] += 1
            yield sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:40]

    def _repeated_prompts(self, item: Item) -> list[str]:
        return list(dict.fromkeys(filter(None, self.prompts(item)))) * self._repeats

    def _sorted(self, items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
        """Split items into answered items and items to send; omit the items of open batches."""
        known: list[Item] = []
        fresh: list[Item] = []
        for item in items:
            names = list(self._names_of(self._repeated_prompts(item)))
            if self._waiting.intersection(names):
                continue
            answers = [self._collected.get(name) for name in names]
            failed = [answer is not None and answer.status in MAY_PASS for answer in answers]
            if any(answer and not lost for answer, lost in zip(answers, failed, strict=True)):
                for name, lost in zip(names, failed, strict=True):
                    if lost:  # other answers about the item are paid for, so this request is repeated singly
                        del self._collected[name]
                known.append(item)
            else:
                (known if all(answers) else fresh).append(item)
        return known, fresh

    def _write(self, item: Item, members: int) -> None:
        """Add an item's question to the batch file, within the spend limit; send the file first if it is full."""
        file, worst, text = self._file, 0.0, b""
        names: list[str] = []
        prompts = self._repeated_prompts(item)
        for name, sent in zip(self._names_of(prompts), map(self.text_of, prompts), strict=True):
            if name in self._waiting:  # another item has the same prompt
                continue
            self._waiting.add(name)
            body = self._dialect.body(sent)
            request = {"custom_id": name, "method": "POST", "url": _CHAT, "body": body}
            text += json.dumps(request).encode() + b"\n"
            worst += self._worst(self._batch_price, len(sent.encode("utf-8", "surrogatepass")), body)
            file.body = {key: value for key, value in body.items() if key != "messages"}
            names.append(name)
        if file.lines and (len(file.lines) + len(names) > MOST_LINES or len(file.text) + len(text) > MOST_BYTES):
            self._send()
            file = self._file
        try:
            self._reserve(worst)
        except NotAskedError:
            return
        file.text += text
        file.lines += names
        file.items, file.questions, file.worst = file.items + members, file.questions + bool(names), file.worst + worst

    def _send(self) -> None:
        file, self._file = self._file, _File(body=self._file.body)
        if not file.lines:
            return
        content = (file.items, file.questions, tuple(file.lines), file.body, file.worst)
        batch = Batch(uuid4().hex, self._store.key, f"{datetime.now(UTC):%F %T.%f}", *content)
        self._store.keep(batch)
        self._ledger.sent += file.worst
        name = f"{batch.token}.jsonl"
        form = httpx.Request("POST", "x:", data={"purpose": "batch"}, files={"file": (name, bytes(file.text))})
        sent = self._called("POST", "/files", form.read(), form.headers["content-type"], batch)
        asked = {"input_file_id": sent["id"], "endpoint": _CHAT, "completion_window": "24h"}
        asked["metadata"] = {_TOKEN: batch.token}
        created = self._called("POST", "/batches", json.dumps(asked).encode(), batch=batch)
        self._store.keep(replace(batch, batch_id=created["id"]))

    def _called(
        self, method: str, path: str, content: bytes = b"", kind: str = "application/json", batch: Batch | None = None
    ) -> dict[str, Any]:
        """Call the endpoint; retry a failed call only if the retry cannot cost anything.

        If the call fails, raises ``StoppedError``, and deletes the record of ``batch`` if the batch cannot exist.
        """
        failed, where = 0, path.partition("?")[0]
        while True:
            try:
                reply = self._endpoint.call(method, path, content, kind, _TRANSFER_S if content else 0.0)
                is_object = not reply.failed and isinstance(reply.content, dict)
                if is_object and (method == "GET" or isinstance(reply.content["id"], str)):
                    return reply.content
                code, message = reply.status, str(reply.error["message"])
            except (NoAnswerError, TypeError, KeyError) as error:
                code, message = 0, str(error)
            unknown = code in _FATE_UNKNOWN or code >= 500
            failed += 1
            if failed > self._engine.retries or path == "/batches" or not (unknown or code == 429):
                break
            self._pace.rest(backoff(failed))
        if batch is not None and (path == "/files" or not unknown):
            self._store.remove(batch)
        reason = f"{f'HTTP {code}' if code else 'no response'} for {method} {where} ({self._hidden(message)})"
        if code == 404 and path == "/files":
            reason += "; the endpoint has no Batch API: remove `batch` from the judge's file"
        elif code == 404 and method == "GET":
            reason += f"; if the endpoint has lost the batch, delete {self._place} and run again"
        else:
            reason += "; correct the cause, or run again later"
        self._stop(reason)
        self.raise_if_stopped()
        raise AssertionError

    def _collect(self) -> list[Batch]:
        ended: list[Batch] = []
        for kept in self._store.batches():
            self._place = self._store.place(kept)
            batch = self._with_id(kept)
            if batch is None:
                continue
            state = self._called("GET", f"/batches/{_quoted(batch.batch_id)}")
            if state.get("status") in _ENDED:
                if not batch.run_date:
                    batch = replace(batch, run_date=f"{datetime.now(UTC):%F}")
                    self._store.keep(batch)
                self._take(batch, state)
                ended.append(batch)
            elif state.get("status") == "failed":
                self._store.remove(batch)
                errors = self._hidden(json.dumps(state.get("errors")))
                self._stop(f"the endpoint refused batch {batch.batch_id} ({errors}); correct the cause, and run again")
            else:
                self._waiting.update(batch.lines)
                counts = _objects([state.get("request_counts")])
                done = next((n for count in counts if isinstance(n := count.get("completed"), int)), 0)
                if batch != (now := replace(batch, done=done)):
                    self._store.keep(now)
        return ended

    def _with_id(self, batch: Batch) -> Batch | None:
        """Look up the id of a batch whose record lacks it; return None if the endpoint does not know the batch."""
        after = ""
        for _ in range(0 if batch.batch_id else _MOST_PAGES):
            page = self._called("GET", f"/batches?limit=100{after}")
            rows = [row for row in _objects(page.get("data")) if isinstance(row.get("id"), str)]
            named = [(row["id"], data.get(_TOKEN)) for row in rows for data in _objects([row.get("metadata")])]
            found = [name for name, token in named if token == batch.token]
            if found:
                batch = replace(batch, batch_id=found[0])
                self._store.keep(batch)
                return batch
            if not rows or not page.get("has_more"):
                self._store.remove(batch)
                return None
            after = f"&after={_quoted(rows[-1]['id'])}"
        if not batch.batch_id:
            self._stop(f"the endpoint lacks the batch recorded in {self._place}; delete this record and run again")
            self.raise_if_stopped()
        return batch

    def _take(self, batch: Batch, state: dict[str, Any]) -> None:
        """Read the answers of a batch that has ended, and record the batch's cost."""
        bill, waiting = Bill(), {*batch.lines}
        try:
            for name in ("output_file_id", "error_file_id"):
                if state.get(name):
                    for line in self._endpoint.lines(f"/files/{_quoted(state[name])}/content", _TRANSFER_S):
                        waiting.discard(self._read(line, batch, bill, waiting))
        except NoAnswerError as error:
            self._stop(f"the results of batch {batch.batch_id} cannot be read ({self._hidden(str(error))}); run again")
            self.raise_if_stopped()
        bill.questions = round(batch.questions * bill.requests / len(batch.lines))
        self._store.paid(batch, bill)
        for purse in self._ledger.purses:  # they counted the maximum cost of the batch
            purse.settle(0.0, bill.dollars, bill.unknown - batch.worst)
        reason = f"the batch ended ({state.get('status')}) without a response to this request; run again"
        self._collected |= {name: PromptAnswer(None, Status.TIMEOUT, reason) for name in waiting}

    def _read(self, line: bytes, batch: Batch, bill: Bill, waiting: Container[str]) -> str:
        """Read an answer from a line of a result file; return the request's id, or "" if the line has no response."""
        try:
            parsed = json.loads(line)
            name, response = str(parsed["custom_id"]), parsed["response"]
            if name not in waiting or response is None:  # it expired or was cancelled before it was asked
                return ""
            reply = Reply(int(response["status_code"]), {}, response["body"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return ""
        bill.requests += 1
        if (answer := self._answer_in(reply, batch, bill)) is not None:
            self._collected[name] = answer
        return name

    def _answer_in(self, reply: Reply, batch: Batch, bill: Bill) -> PromptAnswer | None:
        """Return the answer in one response of a batch; None if the request must be sent again."""
        unknown = Bill(unknown=batch.worst / len(batch.lines))
        try:
            if reply.failed:
                return self._refused(reply, batch.body, 0.0)
            completion = reply.completion()
            bill.add(paid_for(completion.usage, self._batch_price) if completion.usage else unknown)
            return self._answer(completion, batch.body)
        except NoAnswerError as error:
            bill.add(unknown)
            return PromptAnswer(None, Status.ENGINE_ERROR, self._hidden(str(error)))
        except TemporaryError as error:
            return PromptAnswer(None, error.status, error.raw)
        except CutOffError as error:
            return None if self._dialect.make_room(error.body) else error.answer
        except (RefusedError, NotAskedError):
            return None


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _quoted(name: object) -> str:
    return quote(str(name), errors="replace")
