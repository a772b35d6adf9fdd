"""Small data sets in the shapes of the paper's twelve, and of the two in its experiments.

Quality is the number of words "splendid" minus the number of "dreadful", so a model that counts words can measure it.
In a pair, the numbers of both answers together show which answer is better.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GOOD, BAD = "splendid", "dreadful"
DRESSES = ("", " ✨ **Splendid** ✨", " (Weisstein, 2019).")
"""Additions to an answer of the bias set: nothing, beauty, authority."""

_PLAIN = "the answer says where it is and why people go there in the winter or in the summer".split()


def text(rng: np.random.Generator, quality: float, words: int = 24) -> str:
    """Return words in a random order, with more good words for a higher quality in [0, 1]."""
    good = int(rng.binomial(words // 2, quality))
    chosen = [*[GOOD] * good, *[BAD] * (words // 2 - good), *rng.choice(_PLAIN, rng.integers(words // 2, words))]
    rng.shuffle(chosen)
    sentences = " ".join(chosen).replace("where it", "where. 3 of it").replace("why people", "why! See [1]. People")
    return f"{sentences.capitalize()}."


def _pair(rng: np.random.Generator, second: bool) -> tuple[str, str]:
    """Return a better and a worse answer; the better one is shown second if ``second``."""
    while True:
        better, worse = (text(rng, 0.85 if second else 0.25) for _ in range(2))
        if hashlib.sha256(f"0\x1f{better}\x1f{worse}".encode()).digest()[0] % 2 == second:
            return better, worse


def _messages(*contents: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[k % 2], "content": content} for k, content in enumerate(contents)]


def write(folder: Path, scored: int, paired: int) -> None:
    """Write the repositories to ``folder/datasets``, and a clone of the bias set's repository to ``folder/bias``.

    Each scoring set has ``scored`` items, and each set of classes or preferences has ``paired``.
    """
    rng = np.random.default_rng(0)
    quality = rng.uniform(size=max(scored, paired))
    ask = [f"Where is place {k}?" for k in range(len(quality))]
    some, many = range(scored), range(paired)
    _scoring(folder / "datasets", rng, quality, ask, some)
    _classes(folder / "datasets", rng, quality, ask, many)
    query = [
        {
            "query": [{"role": "system", "content": "Answer."}, {"role": "user", "content": ask[k]}],
            "label": text(rng, 0.9, 6),
        }
        for k in range(paired // 2 + 2)
    ]
    _rows(folder / "datasets" / "virtuoussy" / "Multi-subject-RLVR", {"test": query})
    _bias(folder / "bias" / "data", rng, ask, quality[:scored])


def _scoring(folder: Path, rng: np.random.Generator, quality: Any, ask: Sequence[str], rows: range) -> None:
    """Write the six scoring sets."""
    import datasets

    q, answers = quality, [text(rng, quality[k]) for k in rows]
    aspects = datasets.ClassLabel(names=["meaning", "fluency", "simplicity"])
    kinds = {"original": "string", "simplification": "string", "original_sentence_id": "int32", "rating": "int32"}
    features = datasets.Features({**{k: datasets.Value(v) for k, v in kinds.items()}, "aspect": aspects})
    asset = {
        "original": [ask[k] for k in rows],
        "simplification": answers,
        "original_sentence_id": list(rows),
        "rating": [int(100 * q[k]) for k in rows],
        "aspect": [k % 3 for k in rows],
    }
    _config(folder / "facebook" / "asset", {"full": datasets.Dataset.from_dict(asset, features=features)}, "ratings")
    grades = ["Bad", "Could be Improved", "Acceptable", "Excellent"]
    passage = [
        {"passage_id": k, "reference": {"page_title": "t", "section_headers": ["h"], "section_content": answers[k]}}
        for k in rows
    ]
    rated = [[grades[min(3, int(4 * q[k]))], grades[min(3, int(4 * min(1, q[k] + 0.2 * rng.uniform())))]] for k in rows]
    feedback = [
        {"question": ask[k], "passage": passage[k], "feedback": ["a", "b"], "rating": rated[k], "domain": "d"}
        for k in rows
    ]
    path = folder / "McGill-NLP" / "feedbackQA" / "data" / "feedback_valid.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(feedback))
    reviews = [
        {"messages": _messages("Review this.", answers[k]), "avg_rate": 1 + 9 * q[k], "id": str(k)} for k in rows
    ]
    _rows(folder / "WestlakeNLP" / "Review-5K", {"test": reviews})
    axes = [{"overall": 1 + round(6 * q[k]), "accuracy": 6, "coverage": 5, "coherence": 7} for k in rows]
    info = [{"id": f"t{k}", "post": f"{ask[k]} It is far.", "title": "t", "article": None} for k in rows]
    axis = [
        {"info": info[k], "summary": {"text": answers[k], "policy": "p", "axes": axes[k]}, "worker": "w"} for k in rows
    ]
    _rows(folder / "openai" / "summarize_from_feedback", {"validation": axis}, "axis")
    ultra = [
        {"instruction": ask[k], "completions": [{"response": answers[k], "overall_score": 10 * q[k]}]} for k in rows
    ]
    _rows(folder / "openbmb" / "UltraFeedback", {"train": ultra})
    stars = datasets.ClassLabel(names=["1 star", "2 star", "3 stars", "4 stars", "5 stars"])
    yelp = {"label": [min(4, int(5 * q[k])) for k in rows], "text": answers}
    typed = datasets.Features({"label": stars, "text": datasets.Value("string")})
    _config(folder / "Yelp" / "yelp_review_full", {"test": datasets.Dataset.from_dict(yelp, features=typed)})


def _classes(folder: Path, rng: np.random.Generator, quality: Any, ask: Sequence[str], rows: range) -> None:
    """Write the six sets of classes and preferences."""
    second = [bool(quality[k] > 0.5) for k in rows]
    comments = [{"text": text(rng, quality[k]), "toxicity": float(quality[k])} for k in rows]
    _rows(folder / "google" / "civil_comments", {"test": comments})
    arena = []
    for k in rows:
        better, worse = _pair(rng, second[k])
        a, b = (worse, better) if second[k] else (better, worse)
        talks = {"conversation_a": _messages(ask[k], a), "conversation_b": _messages(ask[k], b)}
        arena.append({"winner": "model_b" if second[k] else "model_a", "turn": 1, **talks})
    _rows(folder / "lmsys" / "chatbot_arena_conversations", {"train": arena})
    splits = {}
    for split in ("pku_better", "pku_safer", "shp", "summarize"):
        pairs = [_pair(rng, second[k]) for k in rows]
        splits[split] = [{"prompt": ask[k], "chosen": pairs[k][0], "rejected": pairs[k][1]} for k in rows]
    _rows(folder / "allenai" / "preference-test-sets", splits)


def _bias(folder: Path, rng: np.random.Generator, ask: Sequence[str], quality: Any) -> None:
    """Write the files of the bias set's repository; one of the two answers is restyled."""
    folder.mkdir(parents=True)
    raw = [
        {"question": ask[k], "answers": {f"answer{n}": {"answer": text(rng, q)} for n in (1, 2)}}
        for k, q in enumerate(quality)
    ]
    for name, dress in zip(("raw", "rich_content", "reference"), DRESSES, strict=True):
        for row in raw:
            answers = {n: {"answer": a["answer"] + dress * (n == "answer1")} for n, a in row["answers"].items()}
            with (folder / f"{name}.json").open("a") as file:
                file.write(json.dumps({"question": row["question"], "answers": answers}) + "\n")


def _rows(repository: Path, splits: dict[str, list[dict[str, Any]]], config: str = "default") -> None:
    _config(repository, {split: pa.Table.from_pylist(rows) for split, rows in splits.items()}, config)


def _config(repository: Path, splits: dict[str, Any], config: str = "default") -> None:
    """Write the Parquet files of a configuration, and the card that names the files."""
    (repository / "data").mkdir(parents=True)
    files = []
    for split, rows in splits.items():
        name = f"data/{split}-00000-of-00001.parquet"
        pq.write_table(rows, repository / name) if isinstance(rows, pa.Table) else rows.to_parquet(repository / name)
        files.append(f"  - split: {split}\n    path: {name}\n")
    (repository / "README.md").write_text(
        f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{''.join(files)}---\n"
    )
