"""Build the golden workspace with commit b8b031e: ``python tests/warehouse/golden/build.py b8b031e.tar.xz``.

Run it with the environment of that commit, and with its checkout first on ``PYTHONPATH``. The workspace has two test
sets. Three programs and a model behind an endpoint judge ``one``, which has labels; the scores of ``recorded`` are in
its file. One run publishes a fit of each. Dagster's record of runs is left out.
"""

import lzma
import shutil
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

from tests.support.openai_server import Server, answer
from tests.support.workspaces import run, write_judge

ANSWERS = ("the capital is old", "and large", "Rome", "what else is there", "it lies by the sea", "as everybody knows")


def draw(*of: object) -> int:
    """Return a pseudo-random number that depends only on the arguments."""
    return zlib.crc32(repr(of).encode())


def write(folder: Path, base_url: str) -> None:
    """Write a user's files: settings, judges, test sets, items, scores and labels."""
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True)
    (folder / "care.yaml").write_text("anchors: {one: labels.csv}\n")
    for name in ("length", "question_coverage", "conciseness"):
        write_judge(folder, name)
    (folder / "judges" / "api.yaml").write_text(
        f"engine: {{kind: openai, base_url: '{base_url}', model: m, template: quality, scoring: text, "
        "api_key_env: null}\nfamily: vendor\n"
    )
    columns = "  columns: {prompt: question, response: answer, gold: label, split_unit: question}\n"
    (folder / "testsets" / "one.yaml").write_text(
        f"source:\n  kind: files\n  items: one.csv\n{columns}scale: [0, 10]\n"
    )
    (folder / "testsets" / "recorded.yaml").write_text(
        f"source:\n  kind: files\n  items: two.csv\n{columns}  scores: {{path: scores.csv}}\nscale: [1, 5]\n"
    )
    for name, items in (("one", 36), ("two", 30)):
        rows = ["item_id,question,answer,label,system"]
        for k in range(items):
            parts = [ANSWERS[draw(name, k, part) % 6] for part in range(draw(name, k) % 6 + 1)]
            rows.append(f"{name}-{k},What of city {k // 3}?,{' '.join(parts)},{len(set(parts))},s{k % 3}")
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")
    scores = ["item_id,judge,score"]
    for k in range(30):
        quality = draw("quality", k) % 5
        for judge in "abcd":
            if draw("missing", k, judge) % 15:
                scores.append(f"two-{k},{judge},{max(1, min(5, 1 + quality + draw(k, judge) % 3 - 1))}")
    (folder / "scores.csv").write_text("\n".join(scores) + "\n")
    labels = [f"one-{k},{draw('label', k) % 2},random" for k in range(0, 36, 6)]
    (folder / "labels.csv").write_text("item_id,label,drawn\n" + "\n".join(labels) + "\n")


def main(out: Path) -> None:
    """Build the workspace and pack it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "workspace"
        with Server(lambda text, _: answer(str(draw(text) % 10 + 1))) as server:
            write(folder, server.url)
            outcome = run(folder)
        if outcome.failures:
            raise SystemExit(str(outcome.failures))
        shutil.rmtree(folder / "data" / "dagster")
        with lzma.open(out, "wb", preset=9) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(folder, ".")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
