"""Tests that run the Python code of docs/data.md and the notebook."""

import contextlib
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "data.md"
README = ROOT / "README.md"
NOTEBOOK = ROOT / "examples" / "library.ipynb"


def blocks() -> list[str]:
    """Return the lines of Python in the section about calls from Python."""
    section = PAGE.read_text().partition("\n## In Python\n")[2]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def files(tmp_path, rng, monkeypatch):
    """Create a folder with scores and items of a user, in which the code is run."""
    quality = rng.normal(size=60)
    rows = [f"i{k},judge {j},{5 + q + rng.normal():.3f}" for k, q in enumerate(quality) for j in range(5)]
    (tmp_path / "scores.csv").write_text("\n".join(["item_id,judge,score", *rows]) + "\n")
    gold = [f"i{k},{q:.3f}" for k, q in enumerate(quality)]
    (tmp_path / "items.csv").write_text("\n".join(["item_id,gold", *gold]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_lines_that_a_researcher_writes_run(files):
    printed, names = io.StringIO(), {}
    first, second = blocks()
    assert sum(bool(line) for line in first.splitlines()) <= 10, "ten lines are promised"
    with contextlib.redirect_stdout(printed):
        exec(compile(first, str(PAGE), "exec"), names)
        exec(compile(second, str(PAGE), "exec"), names)
    assert "\nCARE fit of scores.csv: 60 items, 5 of 5 judges" in printed.getvalue()
    assert len(names["estimates"]) == 60
    assert list(names["scores"])[:2] == ["item_id", "care"]
    assert (files / "report.html").is_file()
    assert names["new"].shape == (5,)


def test_the_lines_of_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(README.parent / "examples" / "quickstart", tmp_path / "quickstart"))
    (block,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, str(README), "exec"), names)
    assert len(names["scores"]) == 200


def test_the_notebook_runs_and_is_committed_with_its_outputs():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in cells), "the outputs are part of the notebook"
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)


def handed_over(heading: str) -> str:
    """Return the lines of docs/data.md about frames of a tool."""
    section = PAGE.read_text().partition("### From data frames of other tools")[2].partition(f"**{heading}**")[2]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[0]


@pytest.mark.slow
def test_frames_of_other_tools_are_handed_over_as_documented(rng):
    quality = rng.normal(size=40)
    judges = {f"judge_{name}": quality + 0.5 * rng.normal(size=40) for name in "abc"}
    expected = np.corrcoef(np.mean(list(judges.values()), axis=0), quality)[0, 1]
    annotations = pd.DataFrame(
        [
            {"span_id": f"s{k}", "annotation_name": judge, "annotator_kind": "LLM", "result.score": values[k]}
            for judge, values in judges.items()
            for k in range(40)
        ]
        + [
            {"span_id": f"s{k}", "annotation_name": "quality", "annotator_kind": "HUMAN", "result.score": quality[k]}
            for k in range(0, 40, 2)
        ]
    ).set_index("span_id")
    traces = [
        {
            "id": f"s{k}",
            "feedback_scores": [
                {"name": "judge_a", "value": judges["judge_a"][k], "source": "sdk"},
                {
                    "name": "jury",
                    "value": 0.0,
                    "source": "sdk",
                    "metadata": {"judge_scores": {name: judges[name][k] for name in ("judge_b", "judge_c")}},
                },
                {"name": "quality", "value": quality[k], "source": "ui"},
            ],
        }
        for k in range(40)
    ]
    records = pd.DataFrame({"record_id": [f"s{k}" for k in range(40)], "latency": range(40), **judges})
    for heading, given in (
        ("Phoenix", {"annotations": annotations}),
        ("Opik", {"traces": traces}),
        ("TruLens", {"records": records, "feedbacks": list(judges)}),
    ):
        exec(compile(handed_over(heading), heading, "exec"), given)
        result = given["result"]
        assert sorted(result.judges) == sorted(judges), heading
        assert result.items[:2] == ("s0", "s1"), heading
        assert np.corrcoef(result.estimate, quality)[0, 1] > expected - 0.05, heading
        assert heading != "Phoenix" or result.metrics_frame()["with gold"][0] == 20, (
            "people annotated half of the spans"
        )
