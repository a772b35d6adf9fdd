"""What further starts are worth to states and edges that are fitted together, on seeds that chose nothing.

``python -m benchmarks.study_edge_starts`` prints a row a draw, and below them the table of docs/care-tensor.md.

Fixed before the result was seen. The procedure (``likeliest_dependent``) was chosen on the seeds 0 to 9, where one
start had a least F1 of .62 for votes and .75 for mixed panels. Here are the seeds from 100 on, twenty draws of votes
and six of mixed panels, which take ten times as long. A draw is *bad* where F1 is below .9. What counts is how many
draws are bad from one start and after further ones, and how many of the bad ones ``starts_agree`` flags.

Whatever changes in the procedure or in its flag is chosen on other seeds, from 200 to 239 for votes and from 200 to 211
for mixed panels (``DEVELOPMENT``); then the draws above are run once, and so are those from 300 to 339 and from 300 to
311 (``FRESH``), which no version of the procedure has seen.
"""

from __future__ import annotations

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
        for kind, (items, seeds) in DRAWS.items():
            rows = []
            for seed in seeds:
                rows.append(measured(kind, items, seed))
                print(f"{kind} {seed}: " + ", ".join(f"{name} {rows[-1][name]:.2f}" for name in _SHOWN), flush=True)
            bad = [row for row in rows if row["F1, with edges"] < BAD]
            flagged = [row for row in rows if not row["starts agree"]]
            cells = [
                kind,
                len(rows),
                sum(row["F1, one start"] < BAD for row in rows),
                f"{min(row['F1, one start'] for row in rows):.2f}",
                len(bad),
                f"{min(row['F1, with edges'] for row in rows):.2f}",
                sum(not row["starts agree"] for row in bad),
                len(flagged),
            ]
            summaries.append("| " + " | ".join(map(str, cells)) + " |")
    print(
        "\n| judges | draws | bad, one start | least F1 "
        "| bad, further starts | least F1 | of these flagged | flagged |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    print("\n".join(summaries))


if __name__ == "__main__":
    main()
