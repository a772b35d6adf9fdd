"""A reader that looks at a workspace over and over while others write it: the reader of ``together``.

Belongs here: what must be true of every single read. Belongs elsewhere: who writes meanwhile.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import duckdb

from warehouse.database import Warehouse

_EMPTY = {
    "an aggregator has fits of two editions, or lacks one of its edition": """
        SELECT p.testset, e.aggregator FROM published p JOIN edition_fits e USING (edition)
        LEFT JOIN latest_fits f ON f.fit_id = e.fit_id
        GROUP BY ALL HAVING count(f.fit_id) <> 1""",
    "a published fit has not been evaluated": """
        SELECT f.testset, f.aggregator, f.edition FROM latest_fits f LEFT JOIN evaluations e USING (fit_id)
        WHERE e.fit_id IS NULL""",
    "a published fit has no weights": """
        SELECT f.testset, f.edition FROM latest_fits f WHERE f.aggregator = 'care'
        AND f.fit_id NOT IN (SELECT fit_id FROM weights)""",
    "an item has two estimates by one aggregator": """
        SELECT testset, aggregator, item_id FROM latest_aggregates GROUP BY ALL HAVING count(*) > 1""",
    "an item has estimates by some aggregators and not by others": """
        WITH counted AS (SELECT testset, item_id, count(*) AS estimates FROM latest_aggregates GROUP BY ALL)
        SELECT * FROM counted
        WHERE estimates <> (SELECT max(estimates) FROM counted other WHERE other.testset = counted.testset)
        """,
    "a judge has two scores of one item": """
        SELECT judge_ix, item_ix FROM scores GROUP BY ALL HAVING count(*) > 1""",
    "a slice has other scores than it says": """
        SELECT s.testset, s.judge FROM slices s JOIN judges j USING (judge)
        WHERE s.n_scored <> (SELECT count(*) FROM scores c JOIN items i USING (item_ix)
                             WHERE c.judge_ix = j.judge_ix AND i.testset = s.testset)
        AND s.items_hash = (SELECT t.items_hash FROM testsets t WHERE t.testset = s.testset)""",
}
"""Queries that must find no row, by what has gone wrong if one does."""


def violations(connection: duckdb.DuckDBPyConnection, forgotten: set[str]) -> list[str]:
    """What is wrong with the database at this moment; ``forgotten`` holds items that must not be in it."""
    findings = [
        f"{what}: {rows[:3]}" for what, query in _EMPTY.items() if (rows := connection.execute(query).fetchall())
    ]
    present = connection.execute("SELECT item_id FROM items UNION SELECT item_id FROM latest_aggregates").fetchall()
    back = forgotten & {item for (item,) in present}
    return [*findings, f"forgotten and still there: {sorted(back)}"] if back else findings


def broken_pages(report: Path) -> list[str]:
    """Pages that are cut off; a page that is deleted in the meantime does not count."""
    findings: list[str] = []
    for path in report.glob("*.html"):
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        if not re.search(r"</html>\s*$", text):
            findings.append(f"{path.name} is cut off after {len(text)} characters")
    return findings


def main() -> None:
    """Read until the folder for notes holds a file ``stop``; exit with 1 if anything was wrong."""
    data, notes = map(Path, sys.argv[1:])
    warehouse, reads, longest, wrong = Warehouse(data / "care.duckdb"), 0, 0.0, dict[str, int]()
    while not (notes / "stop").exists():
        forgotten = set((notes / "forgotten").read_text().split())
        findings = broken_pages(data / "report")
        if warehouse.usable():
            started = time.monotonic()
            with warehouse.reader() as connection:
                longest = max(longest, time.monotonic() - started)
                findings += violations(connection, forgotten)
            reads += 1
        for finding in findings:
            wrong[finding] = wrong.get(finding, 0) + 1
        time.sleep(0.05)
    print(f"{reads} reads, the longest wait {longest:.1f} s")
    for finding, times in wrong.items():
        print(f"WRONG, {times} times: {finding}")
    sys.exit(bool(wrong) or not reads)


if __name__ == "__main__":
    main()
