"""What a night's judges take, in tokens, US dollars and time: kept as it is paid, and read back from the database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from assets.judging.batches import every_batch
from judges.bill import Bill, Ledger, Purse
from judges.spec import OpenAIEngine

if TYPE_CHECKING:
    from assets.judging.forecast import Forecast, Rate
    from assets.workspace import Workspace
    from judges.batch import Batch


@dataclass(frozen=True)
class NightBill:
    """A row of the view ``bills``: one judge on one test set in one night; ``askings`` has the columns in words."""

    night: str
    judge: str
    testset: str
    questions: int
    requests: int
    repeated: int
    refused: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    tokens_reasoning: int
    dollars: float | None
    dollars_unknown: float | None
    forecast_tokens: float | None
    forecast_dollars: float | None
    seconds: float
    p50_ms: float | None
    p95_ms: float | None
    prices: str | None


def purses(workspace: Workspace) -> list[Purse]:
    """What the judges of a night may spend together, less what was spent of it today; empty without a limit."""
    limit = workspace.pool.spend_limit
    if limit is None:
        return []
    rows = workspace.bills.read(since=_today()).to_pylist()
    perhaps = sum(row["dollars_unknown"] or 0.0 for row in rows)
    perhaps += sum(batch.worst for batches in every_batch(workspace).values() for batch in batches)
    name = "judging.spend_limit of the night, over all judges, which ends at midnight UTC"
    return [Purse(limit, name, sum(row["dollars"] or 0.0 for row in rows), perhaps)]


class Account:
    """What is asked of one judge at one time.

    Parameters
    ----------
    purses : sequence of Purse
        What the judge may spend together with others.
    rate : Rate, optional
        What its questions have taken before.
    batch : Batch, optional
        Of which it is the bill, under the batch's name: collected again after a kill, it is there once.
    """

    def __init__(
        self,
        workspace: Workspace,
        judge: str,
        purses: Sequence[Purse] = (),
        rate: Rate | None = None,
        batch: Batch | None = None,
    ) -> None:
        self._workspace, self._judge, self.rate = workspace, judge, rate
        self._night, self._id = (batch.night, batch.token) if batch else (_today(), uuid4().hex)
        self._began = datetime.fromisoformat(f"{batch.since}Z") if batch else None
        self.nights = [self._night]
        engine = workspace.judge(judge).engine
        price = None
        if isinstance(engine, OpenAIEngine):
            price = engine.batch_price if batch else engine.price
        self._is_priced = price is not None or not engine.needs.endpoint
        self._prices = price.source if price else None
        self._rows: list[dict[str, Any]] = []
        self._bill, self._seen = Bill(), 0.0
        self._expected: Forecast | None = None
        self.ledger = Ledger(purses)

    def begin(self, testset: str, what: str, expected: Forecast | None = None) -> None:
        """From now on what is asked is entered for this test set."""
        self._bill, self._seen = Bill(), time.perf_counter()
        self._rows.append(
            {
                "night": date.fromisoformat(self._night),
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

    def record(self, scored: int = 0) -> None:
        """Keep what was paid since the last time; called before a batch is stored, so that no payment goes unseen."""
        self._bill.add(self.ledger.take())
        row, bill, now = self._rows[-1], self._bill, time.perf_counter()
        if not bill.requests:
            return
        row["scored"] += scored
        row["seconds"] += now - self._seen
        self._seen = now
        row |= {name: value for name, value in vars(bill).items() if name not in ("dollars", "unknown", "latencies")}
        row["dollars"], row["dollars_unknown"] = (bill.dollars, bill.unknown) if self._is_priced else (None, None)
        if (expected := self._expected) is not None and expected.questions:  # of those that were asked
            share = bill.questions / expected.questions
            dollars = None if expected.dollars is None else share * expected.dollars
            row |= {"forecast_tokens": share * expected.tokens, "forecast_dollars": dollars}
        row["latencies_ms"] = [milliseconds for _, milliseconds in bill.latencies]
        asked = [one for one in self._rows if one.get("requests")]
        self._workspace.bills.write(self._night, self._id, self._judge, asked)

    def close(self) -> None:
        """Bring the database up to date, where anything was asked."""
        if len(self.nights) > 1 or any(row.get("requests") for row in self._rows):
            with self._workspace.warehouse.writer() as connection:
                self._workspace.bills.load(connection, min(self.nights))

    def enter(self, batch: Batch, bill: Bill, testset: str, what: str, expected: Forecast) -> None:
        """Keep what a batch has cost."""
        own = Account(self._workspace, self._judge, batch=batch)
        own.begin(testset, what, expected)
        own.ledger.add(bill)
        own.record(bill.questions)
        self.nights.append(batch.night)


def bills(workspace: Workspace, *, testset: str | None = None, judge: str | None = None) -> list[NightBill]:
    """The bill of the last night in which anything was asked, of one test set or judge or of all; empty without one."""
    if not workspace.warehouse.usable():
        return []
    columns = ", ".join(entry.name for entry in fields(NightBill)).replace("night", "night::VARCHAR", 1)
    with workspace.warehouse.reader() as connection:
        rows = connection.execute(
            f"SELECT {columns} FROM bills WHERE testset = coalesce($1, testset) AND judge = coalesce($2, judge) "
            "QUALIFY night = max(night) OVER () ORDER BY testset, judge",
            [testset, judge],
        ).fetchall()
    return [NightBill(*row) for row in rows]


def bill_of_night(workspace: Workspace) -> str:
    """The bill of the last night in one sentence, beside its forecast; empty where nothing was asked."""
    rows = [row for row in bills(workspace) if row.tokens_in or row.dollars or row.dollars is None]
    return f"Judges took {in_words(rows)} on {rows[0].night} (UTC)." if rows else ""


def in_words(rows: Sequence[NightBill]) -> str:
    """Dollars and tokens of several rows together, and what the dearest took of them."""
    dollars, forecast = sum(row.dollars or 0.0 for row in rows), [row.forecast_dollars for row in rows]
    said = f"US $ {dollars:,.4f}"
    if None not in forecast:
        said += f" (forecast {sum(x or 0.0 for x in forecast):,.4f})"
    if unknown := sum(row.dollars_unknown or 0.0 for row in rows):
        said += f" and at most {unknown:,.4f} more for requests without an answer"
    if unpriced := sorted({row.judge for row in rows if row.dollars is None}):
        said += f" and what {', '.join(unpriced)} cost, whose price is not known"
    read, cached, written, reasoning, repeated, refused = (
        sum(getattr(row, name) for row in rows)
        for name in ("tokens_in", "tokens_cached", "tokens_out", "tokens_reasoning", "repeated", "refused")
    )
    said += f", {read:,} tokens read ({cached:,} cached) and {written:,} written ({reasoning:,} to reason)"
    return f"{said}, {repeated:,} requests repeated, {refused:,} refused as too many"


def _today() -> str:
    return f"{datetime.now(UTC):%F}"
