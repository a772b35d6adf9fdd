"""Law 1: rows of one, two or three judges permuted, reversed or shifted on real panels; who is caught, and how.

``make bench-alignment``; needs CARE_DATA_DIR. Without texts a judge is *excluded* where its agreement comes
back under a shift, and *reported* where it is too low to tell from chance. With texts the words it has
scored give it away.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from assets.sources import read_source
from care_ops.admission import check_panel
from care_ops.config import AdmissionRule
from care_ops.scores import ScoreMatrix

SETS = ("care_asset", "care_civilcomments", "llmbar", "hanna_relevance", "hanna_complexity")
KINDS = ("permuted", "reversed", "shifted")
TRIALS = 200
BINS = (-1.0, 0.1, 0.2, 0.3, 0.5, 1.0)
_ADMIT = AdmissionRule()


def panel(name: str) -> tuple[ScoreMatrix, list[str]]:
    """Scores in the order of the source's rows, and what was scored."""
    from orchestration.workspace import load_workspace
    from warehouse.sources import files
    from warehouse.testsets import FilesSource, resolve

    workspace = load_workspace(Path(__file__).parents[2] / "examples" / "paper")
    source = workspace.testset(name).source
    assert isinstance(source, FilesSource)
    assert source.scores is not None
    records = read_source(workspace, name)
    read = files.read_scores(resolve(source.scores.path, workspace.root), source.scores.columns)
    rows = {item: k for k, item in enumerate(read.scores.item_ids)}
    judges = [j for j in read.scores.judges if j in workspace.judges_of(name)]
    scored = [r for r in records if r.item_id in rows]
    values = read.scores.select_judges(judges).values[[rows[r.item_id] for r in scored]]
    texts = [f"{r.prompt}\x1f{r.response}\x1f{r.response_2}" for r in scored]
    return ScoreMatrix(values, tuple(r.item_id for r in scored), tuple(judges)), texts


def order_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """For each row, the row whose score is put there."""
    if kind == "permuted":
        return rng.permutation(n)
    return np.arange(n)[::-1] if kind == "reversed" else np.roll(np.arange(n), int(rng.integers(1, n)))


def with_texts(counts: Counter[str], texts: list[str]) -> str:
    """How many misaligned judges the recorded texts reveal."""
    if len(set(texts)) == 1:
        return "the set carries no texts"
    return f"with texts {counts['texts caught']} of {counts['all']}"


def main() -> None:
    """Print the results of each panel and the power over all of them."""
    power: dict[str, Counter[tuple[int, str]]] = {kind: Counter() for kind in KINDS}
    for name in SETS:
        scores, texts = panel(name)
        clean = check_panel(scores, _ADMIT)
        agreement = {c.judge: c.agreement for c in clean}
        sound = [c.judge for c in clean if not (c.reason or "").startswith(("degenerate", "missing"))]
        strong = [j for j in sound if agreement[j] >= 0.3]
        wrongly = [c.judge for c in clean if (c.reason or "").startswith("misaligned")]
        noted = [c.judge for c in clean if c.notes and c.judge in strong]
        print(
            f"{name}: {len(scores.item_ids)} items, {len(sound)} sound judges, {len(strong)} agree by .3; clean: "
            f"{len(wrongly)} excluded, {len(noted)} of these reported ({len([c for c in clean if c.notes])} of all)"
        )
        for kind in KINDS:
            counts: Counter[str] = Counter()
            rng = np.random.default_rng([len(name), KINDS.index(kind)])
            for _ in range(TRIALS):
                hit = [sound[j] for j in rng.permutation(len(sound))[: int(rng.integers(1, 4))]]
                values = scores.values.copy()
                mismatches: dict[str, int] = {}
                for judge in hit:
                    rows = order_of(kind, len(texts), rng)
                    j = scores.judges.index(judge)
                    values[:, j] = values[rows, j]
                    mismatches[judge] = sum(texts[a] != texts[b] for a, b in enumerate(rows))
                spoilt = ScoreMatrix(values, scores.item_ids, scores.judges)
                by_scores = {c.judge: c for c in check_panel(spoilt, _ADMIT)}
                by_texts = {c.judge: c for c in check_panel(spoilt, _ADMIT, text_mismatches=mismatches)}
                for judge in hit:
                    c = by_scores[judge]
                    how = "excluded" if not c.admitted else "reported" if c.notes else "missed"
                    place = int(np.searchsorted(BINS, agreement[judge], side="right"))
                    power[kind][place, how] += 1
                    counts["texts caught"] += not by_texts[judge].admitted
                    counts["all"] += 1
                    if judge in strong:
                        counts[how] += 1
                        counts["strong"] += 1
                counts["others excluded"] += sum(
                    (by_scores[j].reason or "").startswith("misaligned") for j in sound if j not in hit
                )
            strongs = max(counts["strong"], 1)
            caught = (counts["excluded"] + counts["reported"]) / strongs
            print(
                f"  {kind}: {with_texts(counts, texts)}; without, of {counts['strong']} that "
                f"agree by .3: {caught:.1%} caught ({counts['excluded'] / strongs:.1%} excluded, "
                f"{counts['reported'] / strongs:.1%} reported); bystanders excluded {counts['others excluded']}"
            )
    print("power without texts against the clean agreement, excluded + reported:")
    for kind in KINDS:
        cells: list[str] = []
        for place in range(1, len(BINS)):
            tried = sum(power[kind][place, how] for how in ("excluded", "reported", "missed"))
            shares = [power[kind][place, how] / tried for how in ("excluded", "reported")] if tried else [0.0, 0.0]
            cells.append(f"{BINS[place - 1]:g}..{BINS[place]:g}: {shares[0]:.2f} + {shares[1]:.2f} (n={tried})")
        print(f"  {kind}: {'; '.join(cells)}")


if __name__ == "__main__":
    main()
