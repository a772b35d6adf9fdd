"""Cost records of judges in tokens, US dollars and time."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from assets.judging.batches import every_batch
from assets.judging.journal import Journal
from judges.bill import Bill, Ledger, Purse
from judges.spec import OpenAIEngine

if TYPE_CHECKING:
    from assets.judging.forecast import Forecast, Rate
    from assets.workspace import Workspace
    from judges.batch import Batch
    from judges.items import Score

_RESERVED_FOR_S = 0.1
"""Minimum duration of a reservation in seconds; if requests use it up earlier, the next one is twice as large."""

_MOST_AHEAD, _SHARE_AHEAD = 256, 0.02
"""Largest number of requests, and largest share of the spend limit, that a reservation may hold for later requests.
If the process is killed, this amount counts against the limit although it was not spent."""

_OTHER_COLUMNS = ("unknown", "settled", "latencies")
"""Fields of ``Bill`` that have no column of the same name."""


def purses(workspace: Workspace) -> list[Purse]:
    """Return the daily spend limit that all judges share, with today's spending; empty if there is no limit."""
    limit = workspace.pool.spend_limit
    if limit is None:
        return []
    rows = workspace.bills.read(since=_today()).to_pylist()
    perhaps = sum((row["dollars_unknown"] or 0.0) + (row["dollars_reserved"] or 0.0) for row in rows)
    perhaps += sum(batch.worst for batches in every_batch(workspace).values() for batch in batches)
    name = "judging.spend_limit in care.yaml, per day for all judges; a new day starts at midnight UTC"
    return [Purse(limit, name, sum(row["dollars"] or 0.0 for row in rows), perhaps)]


class Account(Ledger):
    """Cost record of one judge in one run; the maximum cost of requests is written to disk before they are sent.

    Parameters
    ----------
    purses : sequence of Purse
        Spend limits that the judge shares with other judges.
    rate : Rate, optional
        The judge's mean tokens and mean time per question so far.
    batch : Batch, optional
        Batch to bill. The record's id is ``batch.token``, so collecting the batch again replaces the record.
    """

    def __init__(
        self,
        workspace: Workspace,
        judge: str,
        purses: Sequence[Purse] = (),
        rate: Rate | None = None,
        batch: Batch | None = None,
    ) -> None:
        super().__init__(purses)
        self._workspace, self._judge, self.rate = workspace, judge, rate
        self._run_date, self._id = (batch.run_date, batch.token) if batch else (_today(), uuid4().hex)
        self._began = datetime.fromisoformat(f"{batch.since}Z") if batch else None
        self.run_dates = [self._run_date]
        engine = workspace.judge(judge).engine
        price = None
        if isinstance(engine, OpenAIEngine):
            price = engine.batch_price if batch else engine.price
        self._is_priced = price is not None or not engine.needs.endpoint
        self._prices = price.source if price else None
        self._rows: list[dict[str, Any]] = []
        self._bill, self._seen = Bill(), 0.0
        self._expected: Forecast | None = None
        self._ahead = self._at_once = engine.concurrency if isinstance(engine, OpenAIEngine) else 1
        self._unrecorded = 0
        self._before = self._reserved = self._reserved_at = 0.0
        self._writing = threading.Lock()
        self._journal = Journal(workspace, self._run_date, self._id, judge)

    def begin(self, testset: str, what: str, expected: Forecast | None = None) -> None:
        """Start a new row of the cost record for the next requests, which ask for scores on one test set."""
        self._bill, self._seen = Bill(), time.perf_counter()
        self._before, self._reserved = self.reserved, 0.0
        self._rows.append(
            {
                "run_date": date.fromisoformat(self._run_date),
                "judge": self._judge,
                "testset": testset,
                "what": what,
                "began": self._began or datetime.now(UTC),
                "scored": 0,
                "seconds": 0.0,
                "prices": self._prices,
            }
        )
        self._expected = expected

    def record(self, scored: int = 0, *, going_on: bool = False) -> None:
        """Write to disk the costs since the previous call of this method.

        Call this before answers are stored, or costs can be lost. ``going_on`` keeps the reserve for later requests.
        """
        with self._writing:
            now = time.perf_counter()
            if not going_on:
                self._reserved = self.reserved - self._before
            row = self._row()
            row["scored"] += scored
            row["seconds"] += now - self._seen
            self._seen, self._unrecorded = now, 0
            if row["requests"] or self._reserved:
                self._write()

    def answered(self, key: str, scores: Sequence[Score], version: str) -> None:
        """Append new answers and the costs so far to the journal, before the answers are stored in a score part."""
        with self._writing:
            row = self._row()
            self._unrecorded += len(scores)
            bill = {name: value for name, value in row.items() if name != "latencies_ms"}
            bill["scored"] += self._unrecorded
            line = {"testset": row["testset"], "what": row["what"], "key": key, "engine": version, "bill": bill}
            line["rows"] = [score.as_row() for score in scores]
            self._journal.append(line, [score.item_key for score in scores])

    def stored(self, items: Collection[str]) -> None:
        """Remove answers from the journal once their score part is stored; ``items`` contains the item keys."""
        self._journal.stored(items)

    def reserve(self, worst: float) -> None:
        """Reserve the maximum cost of the next requests, and write it to disk before they are sent."""
        super().reserve(worst)
        with self._writing:
            reserved = self.reserved - self._before
            if reserved <= self._reserved:
                return
            now = time.monotonic()
            is_fast = now - self._reserved_at < _RESERVED_FOR_S
            self._ahead = min(2 * self._ahead, _MOST_AHEAD) if is_fast else self._at_once
            share = min((_SHARE_AHEAD * purse.limit for purse in self.purses), default=float("inf"))
            self._reserved, self._reserved_at = reserved + min((self._ahead - 1) * worst, share), now
            self._row()
            self._write()

    def _row(self) -> dict[str, Any]:
        self._bill.add(self.take())
        row, bill = self._rows[-1], self._bill
        row |= {name: value for name, value in vars(bill).items() if name not in _OTHER_COLUMNS}
        row |= {"dollars_unknown": bill.unknown, "dollars_reserved": max(0.0, self._reserved - bill.settled)}
        if not self._is_priced:
            row |= dict.fromkeys(("dollars", "dollars_unknown", "dollars_reserved"))
        if (expected := self._expected) is not None and expected.questions:  # scaled to the questions asked
            share = bill.questions / expected.questions
            dollars = None if expected.dollars is None else share * expected.dollars
            row |= {"forecast_tokens": share * expected.tokens, "forecast_dollars": dollars}
        return row

    def _write(self) -> None:
        self._rows[-1]["latencies_ms"] = [milliseconds for _, milliseconds in self._bill.latencies]
        charged = [row for row in self._rows if row.get("requests") or row.get("dollars_reserved")]
        self._workspace.bills.write(self._run_date, self._id, self._judge, charged)

    def close(self) -> None:
        """Close the journal, and load the cost records into the database if any request was sent."""
        self._journal.close()
        if len(self.run_dates) > 1 or any(row.get("requests") for row in self._rows):
            with self._workspace.warehouse.writer() as connection:
                self._workspace.bills.load(connection, min(self.run_dates))

    def enter(self, batch: Batch, bill: Bill, testset: str, what: str, expected: Forecast) -> None:
        """Write the costs of a batch to a separate cost record."""
        own = Account(self._workspace, self._judge, batch=batch)
        own.begin(testset, what, expected)
        own.add(bill)
        own.record(bill.questions)
        self.run_dates.append(batch.run_date)


def bills(workspace: Workspace, *, judge: str | None = None) -> list[dict[str, Any]]:
    """Read the view ``bills`` for the last day with requests, for one judge or all judges."""
    if not workspace.warehouse.usable():
        return []
    with workspace.warehouse.reader() as connection:
        result = connection.sql(
            "SELECT * REPLACE (run_date::VARCHAR AS run_date) FROM bills WHERE judge = coalesce($1, judge) "
            "QUALIFY run_date = max(run_date) OVER () ORDER BY testset, judge",
            params=[judge],
        )
        return result.to_arrow_table().to_pylist()


def latest_bill_message(workspace: Workspace) -> str:
    """Return a sentence with the costs of the last day with requests; empty if there were no requests."""
    rows = [row for row in bills(workspace) if row["tokens_in"] or row["dollars"] or row["dollars"] is None]
    return f"Cost of the judges on {rows[0]['run_date']} (UTC): {in_words(rows)}." if rows else ""


def in_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format the total dollars, tokens and requests of several cost rows as text."""
    dollars = ("dollars", "forecast_dollars", "dollars_unknown", "dollars_reserved")
    counts = ("tokens_in", "tokens_cached", "tokens_out", "tokens_reasoning", "repeated", "refused")
    total = {name: sum(row[name] or 0 for row in rows) for name in (*dollars, *counts)}
    text = f"US $ {total['dollars']:,.4f}"
    if all(row["forecast_dollars"] is not None for row in rows):
        text += f" (forecast {total['forecast_dollars']:,.4f})"
    if unknown := total["dollars_unknown"]:
        text += f" and at most {unknown:,.4f} more for requests without an answer"
    if reserved := total["dollars_reserved"]:
        text += f" and at most {reserved:,.4f} more for requests that were under way when CARE was killed"
    if unpriced := sorted({row["judge"] for row in rows if row["dollars"] is None}):
        text += f" without {', '.join(unpriced)}, whose price is not known"
    read, cached, written, reasoning, repeated, refused = (f"{total[name]:,}" for name in counts)
    text += f", {read} tokens read ({cached} cached) and {written} written ({reasoning} for reasoning)"
    return f"{text}, {repeated} requests repeated, {refused} refused by a rate limit"


def _today() -> str:
    return f"{datetime.now(UTC):%F}"
