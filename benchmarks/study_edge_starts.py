"""What further starts are worth to states and edges that are fitted together, on seeds that chose nothing.

``python -m benchmarks.study_edge_starts`` prints a row a draw, and below them the table of
``benchmarks/results/study-edge-starts.md``.

Fixed before the result was seen: twenty draws of votes and six of mixed panels, seeds from 100 on (``DRAWS``). A draw
is *bad* where F1 is below .9. What counts is how many draws are bad from one start and after further ones, and how many
of the bad ones ``starts_agree`` flags.

The first procedure, partitions of the items as further starts, was chosen on the seeds 0 to 9 and is in the docs. What
replaced it, the judges of a view joined into one, was chosen on other seeds, from 200 to 234 for votes and from 200 to
205 for mixed panels (of ``DEVELOPMENT``). That a further start has views of its own, and not those of an end before it,
was added after the seeds 300 to 308 of votes had been seen, of which 308 was bad and not flagged, and after seed 4, so
that the seeds of ``FRESH`` are fresh from 309 on.
"""

from __future__ import annotations

import itertools

from threadpoolctl import threadpool_limits

from assets.experiments.edges_within_states import measured
from care_ops.simulate import Kind

DRAWS: dict[Kind, tuple[int, range]] = {"binary": (20_000, range(100, 120)), "mixed": (4_000, range(100, 106))}

DEVELOPMENT: dict[Kind, tuple[int, range]] = {"binary": (20_000, range(200, 240)), "mixed": (4_000, range(200, 212))}

FRESH: dict[Kind, tuple[int, range]] = {"binary": (20_000, range(300, 340)), "mixed": (4_000, range(300, 312))}

BAD = 0.9

_SHOWN = ("F1, one start", "F1, with edges", "starts agree", "in their state, with edges")


def main() -> None:
    """Print the rows and the table."""
    summaries: list[str] = []
    with threadpool_limits(limits=1, user_api="blas"):
        for kind, (items, seeds) in itertools.chain(DRAWS.items(), FRESH.items()):
            rows: list[dict[str, float]] = []
            for seed in seeds:
                rows.append(measured(kind, items, seed))
                print(f"{kind} {seed}: " + ", ".join(f"{name} {rows[-1][name]:.2f}" for name in _SHOWN), flush=True)
            summaries.append(summary(f"{kind}, {seeds[0]} to {seeds[-1]}", rows))
    print(
        "\n| judges, seeds | draws | bad, one start | least F1 "
        "| bad, further starts | least F1 | of these flagged | others flagged |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    print("\n".join(summaries))


def summary(name: str, rows: list[dict[str, float]]) -> str:
    """A row of the table."""
    bad = [row for row in rows if row["F1, with edges"] < BAD]
    cells = [
        name,
        len(rows),
        sum(row["F1, one start"] < BAD for row in rows),
        f"{min(row['F1, one start'] for row in rows):.2f}",
        len(bad),
        f"{min(row['F1, with edges'] for row in rows):.2f}",
        sum(not row["starts agree"] for row in bad),
        sum(not row["starts agree"] for row in rows if row["F1, with edges"] >= BAD),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
