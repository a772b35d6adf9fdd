"""Several criteria of the same items: a fit of each, and what they share."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import care_eval
from orchestration.cli.app import app

CRITERIA = ("clear", "kind", "true")
ITEMS = 240


@pytest.fixture
def truth(rng):
    return {criterion: rng.normal(size=ITEMS) for criterion in CRITERIA}


@pytest.fixture
def scores(rng, truth):
    """Six judges of three criteria that have nothing in common; the last two carry a halo."""
    whole = rng.normal(size=(ITEMS, 6)) * [0, 0, 0, 0, 1.0, 1.0]
    rows = []
    for criterion, quality in truth.items():
        values = 5 + quality[:, None] + whole + 0.5 * rng.normal(size=(ITEMS, 6))
        rows += [
            {"item_id": f"i{k:03}", "judge": f"judge {j}", "criterion": criterion, "score": values[k, j]}
            for k in range(ITEMS)
            for j in range(6)
        ]
    return pd.DataFrame(rows)


def test_each_criterion_is_fitted_as_it_would_be_alone(scores, truth):
    result = care_eval.fit_criteria(scores, "criterion", intervals=0, aggregators=["care", "avg"])
    frame = result.to_frame()
    assert list(frame.columns) == ["item_id", *CRITERIA]
    for criterion, quality in truth.items():
        alone = care_eval.fit(scores[scores["criterion"] == criterion].drop(columns="criterion"), intervals=0)
        np.testing.assert_array_equal(result[criterion].estimate, alone.estimate)
        assert np.corrcoef(frame[criterion], quality)[0, 1] > 0.85
    with pytest.raises(care_eval.InputError, match="no criterion 'short'; there are clear, kind, true"):
        result["short"]


def test_criteria_that_people_tell_apart_and_judges_do_not_are_told(rng):
    clear, kind = rng.normal(size=(2, ITEMS))
    mixed = {"clear": clear + kind, "kind": clear + kind, "true": rng.normal(size=ITEMS)}
    people = {"clear": clear, "kind": kind, "true": mixed["true"]}
    rows = [
        {"item_id": f"i{k}", "judge": f"j{j}", "criterion": criterion, "score": quality[k] + 0.5 * rng.normal()}
        for criterion, quality in mixed.items()
        for k in range(ITEMS)
        for j in range(4)
    ]
    items = [
        {"item_id": f"i{k}", "criterion": criterion, "gold": quality[k]}
        for criterion, quality in people.items()
        for k in range(ITEMS)
    ]
    result = care_eval.fit_criteria(
        pd.DataFrame(rows), "criterion", items=pd.DataFrame(items), intervals=0, aggregators="care"
    )
    (sentence,) = result.criteria.sentences()[:1]
    assert sentence.startswith("clear and kind correlate at +0.9")
    assert "the judges tell them less apart than people do" in sentence
    assert not [said for said in result.criteria.sentences() if said.startswith(("clear and true", "kind and true"))]


def test_the_command_writes_one_page_beside_a_folder_for_each(scores, tmp_path):
    scores.to_csv(tmp_path / "scores.csv", index=False)
    words = ["criteria", str(tmp_path / "scores.csv"), "--by", "criterion", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*words, "--aggregator", "care", "--aggregator", "avg"])
    assert done.exit_code == 0, done.output
    assert "judges carry a halo" in done.output
    page = (tmp_path / "out" / "criteria.html").read_text()
    for criterion in CRITERIA:
        assert f'href="{criterion}/report.html"' in page
        assert (tmp_path / "out" / criterion / "report.html").is_file()
    document = json.loads((tmp_path / "out" / "criteria.json").read_text())
    assert [row["criterion"] for row in document["criteria"]] == list(CRITERIA)
    assert document["people"] is None
    assert "scores.csv, criterion 'kind': " in " ".join(done.output.split())
    for wrong, message in (("aspect", "no column 'aspect'"), ("judge", "without a judge's column")):
        refused = CliRunner().invoke(app, [*words[:2], "--by", wrong, *words[4:]])
        assert refused.exit_code == 2
        assert message in refused.output


def test_a_criterion_of_too_few_judges_is_told_and_the_others_are_made(scores, tmp_path):
    few = scores[(scores["criterion"] != "kind") | scores["judge"].isin(["judge 0", "judge 1"])]
    few.to_csv(tmp_path / "scores.csv", index=False)
    words = ["criteria", str(tmp_path / "scores.csv"), "--by", "criterion", "--aggregator", "care", "--out"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [(row["criterion"], row["verdict"] == "No fit") for row in rows] == [
        ("clear", False),
        ("true", False),
        ("kind", True),
    ]
    assert rows[2]["items"] is None
    assert "'kind' has no fit: " in done.stderr
    assert "judges" in done.stderr.split("'kind' has no fit: ")[1]
    assert sorted(path.parent.name for path in (tmp_path / "out").rglob("report.html")) == ["clear", "true"]
    document = json.loads((tmp_path / "out" / "criteria.json").read_text())
    assert list(document["without"]) == ["kind"]
    assert np.shape(document["agreement"]) == (2, 2)
    page = (tmp_path / "out" / "criteria.html").read_text()
    assert "No fit" in page
    assert 'href="kind/' not in page
    result = care_eval.fit_criteria(few, "criterion", intervals=0, aggregators="care")
    assert repr(result).startswith("CARE fits of 2 criteria\nclear: 240 items, 6 judges")
    assert "'kind' has no fit: " in repr(result)
    nobody = few[few["judge"].isin(["judge 0", "judge 1"])]
    nobody.to_csv(tmp_path / "scores.csv", index=False)
    refused = CliRunner().invoke(app, [*words, str(tmp_path / "none")])
    assert (refused.exit_code, (tmp_path / "none").exists()) == (1, False)


def test_no_name_of_a_criterion_leads_out_of_the_folder_or_into_another_ones(scores, tmp_path):
    words = ["criteria", str(tmp_path / "scores.csv"), "--by", "criterion", "--aggregator", "avg", "--out"]
    names = ("..", "criteria.json", "a b")
    scores.replace(dict(zip(CRITERIA, names, strict=True))).to_csv(tmp_path / "scores.csv", index=False)
    done = CliRunner().invoke(app, [*words, str(tmp_path / "in" / "out")])
    assert done.exit_code == 0, done.output
    assert not [path for path in tmp_path.rglob("report.html") if (tmp_path / "in" / "out") not in path.parents]
    assert len({path.parent for path in (tmp_path / "in" / "out").rglob("report.html")}) == len(names)
    scores.replace(dict(zip(CRITERIA, ("Clear", "clear", "x"), strict=True))).to_csv(
        tmp_path / "scores.csv", index=False
    )
    refused = CliRunner().invoke(app, [*words, str(tmp_path / "other")])
    assert (refused.exit_code, (tmp_path / "other").exists()) == (2, False)
    assert "'clear' differ by capitals" in " ".join(refused.output.split())
