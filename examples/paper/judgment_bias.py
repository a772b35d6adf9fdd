"""Write the items of the test set judgment_bias: original answers, and the same answers restyled by GPT-4.

``python examples/paper/judgment_bias.py CLONE FOLDER`` reads a clone of the repository
FreedomIntelligence/Humans_LLMs_Judgement_Bias and writes FOLDER/items.jsonl.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

CHANGED = {"beauty": "rich_content.json", "authority": "reference.json"}
"""File of restyled answers for each kind of change; in each pair, only one of the two answers is changed."""


def answers(file: Path) -> dict[tuple[str, str], str]:
    """Return the answers in a JSON lines file by (question, place), where the place is answer1 or answer2."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {(row["question"], place): answer["answer"] for row in rows for place, answer in row["answers"].items()}


def items(data: Path) -> Iterator[dict[str, str]]:
    """Yield an item for each original answer that has restyled versions, and for each of these versions."""
    originals = answers(data / "raw.json")
    changed = {change: answers(data / name) for change, name in CHANGED.items()}
    number = {question: k for k, question in enumerate(dict.fromkeys(question for question, _ in originals))}
    for (question, place), original in originals.items():
        versions = {c: texts[question, place] for c, texts in changed.items() if (question, place) in texts}
        versions = {change: text for change, text in versions.items() if text != original}
        pair = f"{number[question]}-{place}"
        for version, text in ({"original": original} | versions if versions else {}).items():
            yield {
                "item_id": f"{pair}-{version}",
                "pair": pair,
                "version": version,
                "question": question,
                "answer": text,
            }


def main(clone: Path, folder: Path) -> None:
    """Write the items from a clone of the repository to ``items.jsonl`` in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(item, ensure_ascii=False) for item in items(clone / "data")]
    (folder / "items.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(lines)} items in {folder / 'items.jsonl'}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
