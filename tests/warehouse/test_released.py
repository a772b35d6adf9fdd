"""Tests of the paper's published scores, read from a small copy of their repository's layout."""

import numpy as np
import pytest

from care_ops.errors import InputError
from orchestration.workspace import load_workspace
from tests.support.workspaces import care, read_table, run, write_table
from warehouse.released import RELEASED, add_released


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, rows[0], [row.values() for row in rows])


@pytest.fixture
def clone(tmp_path):
    """Write sixty comments, two of them with the same text, and three judges, the last in reversed order."""
    rng, folder = np.random.default_rng(0), tmp_path / "CARE"
    texts = ["twice", "twice", *(f"comment {k}, with a comma" for k in range(58))]
    rows = [{"label": k % 2, "text": text, "toxicity": 0.0} for k, text in enumerate(texts)]
    write(folder / RELEASED["care_civilcomments"].items, rows)
    for j, judge in enumerate(("Qwen3-4B", "Yi-1.5-6B-Chat", "gemma-3-4b-it")):
        scored = [{"text": row["text"], "parsed_output": int(rng.integers(0, 5)) + 4 * row["label"]} for row in rows]
        scored[5]["parsed_output"] = "12" if j else "no number"
        judged = scored[::-1] if j == 2 else scored
        write(folder / RELEASED["care_civilcomments"].judges / f"{judge}.csv", judged)
    return folder


def scores_in(workspace):
    table = read_table(workspace / "released" / "care_civilcomments" / "scores.csv")
    return {(row["judge"], row["item_id"]): row["score"] for row in table}


def test_each_judge_is_joined_by_text_and_scores_outside_the_scale_are_missing(clone, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "care.yaml").write_text("fit: {aggregators: [avg], resamples: 0}\n")
    care(tmp_path / "mine", "testsets", "add", "--released", str(clone))
    scores = scores_in(tmp_path / "mine")
    assert [scores[judge, "5"] for judge in ("Qwen3-4B", "Yi-1.5-6B-Chat", "gemma-3-4b-it")] == ["", "", ""]
    label = np.arange(60) % 2
    high = np.array([float(scores["gemma-3-4b-it", str(k)] or np.nan) for k in range(2, 60)])
    assert np.nanmin(high[label[2:] == 1]) >= 4, "the file in reversed order is joined by text, not by position"
    assert not run(tmp_path / "mine", selection="items").failures
    assert load_workspace(tmp_path / "mine").testset("care_civilcomments").cut == 4.5


def test_what_is_there_stays_and_another_folder_is_refused(clone, tmp_path):
    (tmp_path / "near").mkdir()
    assert [path.stem for path in add_released(clone, tmp_path / "near", tmp_path / "near")] == ["care_civilcomments"]
    assert add_released(clone, tmp_path / "near", tmp_path / "near") == []
    with pytest.raises(InputError, match="give a clone of https"):
        add_released(tmp_path / "near", tmp_path, tmp_path)
    write(clone / RELEASED["care_civilcomments"].judges / "odd.csv", [{"text": "nowhere", "parsed_output": 1}])
    with pytest.raises(InputError, match="'nowhere' is not in data"):
        add_released(clone, tmp_path, tmp_path)
