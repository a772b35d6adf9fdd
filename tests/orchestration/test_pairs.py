"""Tests of two systems compared in pairs, with every command that accepts pairs."""

import json
import random
import re
from pathlib import Path

import pytest

import judges.prompts
from tests.support.openai_server import Server
from tests.support.workspaces import query, run, typed_line

ESTIMATES = "SELECT item_id, estimate FROM latest_aggregates WHERE aggregator = 'care' ORDER BY item_id"
TEMPLATES = Path(judges.prompts.__file__).parent

TWICE = ("--system", "model_a", "--system", "model_b")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Write 200 pairs as long JSONL, with five judges that favour the left side, and 40 random labels."""
    folder, rng = tmp_path_factory.mktemp("pairs"), random.Random(7)
    scores, items, labels = [], [], ["item_id,label,drawn"]
    for k in range(200):
        left, right = rng.sample(["new", "old"], 2)
        better = rng.gauss(0.7, 1) * (1 if left == "new" else -1)
        texts = {"prompt": f"topic {k}", "response_a": f"an answer {k}", "response_b": f"another {k}"}
        items.append({"item_id": f"p{k}", **texts, "model_a": left, "model_b": right})
        for j in range(5):
            seen = better + 0.5 + rng.gauss(0, 0.9)
            scores.append(
                {"item_id": f"p{k}", "judge": f"j{j}", "score": 1 if seen > 0.3 else 0.5 if seen > -0.3 else 0}
            )
        if k % 5 == 0:
            labels.append(f"p{k},{1 if better > 0.1 else 0.5 if better > -0.1 else 0},random")
    for name, rows in (
        ("scores.jsonl", map(json.dumps, scores)),
        ("items.jsonl", map(json.dumps, items)),
        ("labels.csv", labels),
    ):
        (folder / name).write_text("\n".join(rows) + "\n")
    return folder


def given(here, *systems):
    return here / "scores.jsonl", "--items", here / "items.jsonl", "--labels", here / "labels.csv", *systems


def test_the_better_system_passes_the_gate_and_the_worse_one_does_not(here):
    scores, *rest = given(here, *TWICE)
    printed = typed_line("gate", scores, "new", "--against", "old", *rest)
    assert "new against old: better, share of wins minus share of losses +0." in printed
    assert "200 pairs: a higher score or label means that the answer of 'model_a', the left one, is better" in printed
    worse = ("gate", scores, "old", "--against", "new", *rest)
    assert "old against new: worse" in typed_line(*worse, "--sequential", code=3)
    typed_line(*worse, "--margin", "0.9")


def test_a_fit_reports_judges_that_prefer_the_left_side(here, tmp_path):
    """The expected share is counted here."""
    options = ("--aggregator", "care", "--intervals", 0)
    fit = ("fit", here / "scores.jsonl", "--items", here / "items.jsonl", *options)
    sides = {row["item_id"]: row["model_a"] for row in map(json.loads, (here / "items.jsonl").read_text().splitlines())}
    chosen = {"new": [], "old": []}
    for row in map(json.loads, (here / "scores.jsonl").read_text().splitlines()):
        if row["score"] != 0.5:
            chosen[sides[row["item_id"]]].append(row["score"])
    share = sum(sum(each) / len(each) for each in chosen.values()) / 2
    printed = typed_line(*fit, *TWICE, "--out", tmp_path / "known", "--why")
    found = re.search(r"choose the left answer in (\d+) % of the pairs \((\d) of 5 judges significantly", printed)
    assert found, printed
    assert int(found[2]) >= 4
    assert int(found[1]) == pytest.approx(100 * share, abs=3)
    assert "each system was in both positions" in printed
    unnamed = typed_line(*fit, "--out", tmp_path / "no", "--why")
    assert "a bias, unless better answers are in that position" in unnamed
    hint = "all systems count as one, although column 'model_a' distinguishes them; give --system model_a --system"
    assert [f"{hint} model_b" in text for text in (printed, unnamed)] == [False, True]


def test_too_few_labels_are_counted_and_labels_of_unknown_pairs_are_located(here, tmp_path):
    lines = (here / "labels.csv").read_text().split()
    scores, *rest = ("scores.jsonl", "--items", here / "items.jsonl", *TWICE)
    few, unknown = tmp_path / "few.csv", tmp_path / "unknown.csv"
    few.write_text("\n".join(lines[:2]) + "\n")
    unknown.write_text("\n".join([*lines, "q7,1,random"]) + "\n")
    printed = typed_line("gate", here / scores, "new", "--against", "old", *rest, "--labels", few, code=4)
    assert "have 1 label; 5 are needed: label more of these pairs with `care label`" in printed
    fit = ("fit", here / scores, *rest, "--intervals", 0, "--out", tmp_path / "out", "--labels")
    assert "Labels do not correct these differences, which include the judges' shared bias" in typed_line(*fit, few)
    assert "unknown.csv: no scores for 1 labelled item, such as 'q7'" in typed_line(*fit, unknown, code=2)


def test_options_for_pairs_and_for_single_answers_are_not_mixed(here):
    rows = [json.loads(line) for line in (here / "items.jsonl").read_text().splitlines()]
    single = [
        {"item_id": r["item_id"], "response": r["response_a"], "model": r["model_a"], "maker": r["model_b"]}
        for r in rows
    ]
    (here / "single.jsonl").write_text("\n".join(map(json.dumps, single)) + "\n")
    scores, *rest = given(here)
    of_single = ("--items", here / "single.jsonl", "--labels", here / "labels.csv")
    makers = ("--system", "model", "--system", "maker")
    gate = ("gate", scores, "new", "--against")
    outside = here / "outside.csv"
    outside.write_text((here / "labels.csv").read_text().replace(",1,", ",3,"))
    of_outside = (scores, "--items", here / "items.jsonl", *TWICE, "--labels", outside)
    cases = {
        (*gate, "old", *rest, "--system", "model_a"): "('model_a' and 'model_b'), each with --system",
        ("rate", scores, *rest, "--system", "model_b"): "('model_a' and 'model_b'), each with --system",
        ("rate", scores, *rest, *TWICE[:2], *TWICE[:2]): "model_a, model_a cannot name the systems",
        ("rate", scores, *rest, *TWICE, "--system", "prompt"): "model_a, model_b, prompt cannot name the systems",
        ("rate", scores, *of_single, *makers): "each item has one answer; give one column",
        (*gate, "third", *rest, *TWICE): "no pair has the system 'third'; choose from new, old",
        ("rate", *of_outside): "a label of a pair must lie between 0",
        ("gate", "demo", "new", "--against", "old", "--workspace", here, *rest): "--items applies only to tables",
    }
    for words, sentence in cases.items():
        assert sentence in typed_line(*words, code=2)
    typed_line("rate", *of_outside, "--label-bounds", 0, 3)


FILES = (
    "source:\n  kind: files\n  items: items.csv\n  columns: {prompt: question, response: one, response_2: two}\n"
    "scale: [-3, 3]\ncut: 0\nsystems: [left, right]\n"
)


@pytest.fixture
def two_systems(tmp_path):
    """Create a workspace of 60 pairs, with a better new system; grades are high if the right answer is better."""
    folder, rng = tmp_path / "ws", random.Random(3)
    for sub in ("testsets", "judges", "prompts"):
        (folder / sub).mkdir(parents=True)
    items, labels, grades = ["item_id,question,one,two,left,right"], ["item_id,label,drawn"], {}
    for k in range(60):
        left, right = rng.sample(["new", "old"], 2)
        for_right = rng.gauss(0.8, 1) * (1 if right == "new" else -1)
        items.append(f"p{k},what is {k}?,answer {k},other {k},{left},{right}")
        labels += [f"p{k},{int(for_right > 0)},random"] if k % 2 else []
        grades[k] = [max(-3, min(3, round(for_right + rng.gauss(0, 0.8)))) or 1 for _ in range(4)]
    for name, rows in (("items.csv", items), ("labels.csv", labels)):
        (folder / name).write_text("\n".join(rows) + "\n")
    (folder / "care.yaml").write_text("fit: {resamples: 0}\ncanary: {items: 0}\n")
    return folder, grades


@pytest.mark.slow
def test_a_template_that_prefers_the_second_answer_names_the_better_system_too(two_systems):
    """Templates of pairs give higher scores if ``response_2`` is better, also a judge's template."""
    folder, grades = two_systems
    built_in = (TEMPLATES / "preference.yaml").read_text()

    def say(text, _):
        judge, k = re.search(r"judge (\d)", text), re.search(r"Question: what is (\d+)", text)
        return {"choices": [{"message": {"content": str(grades[int(k[1])][int(judge[1]) if judge else 0] + 3)}}]}

    with Server(say) as server:
        for j in range(4):
            (folder / "prompts" / f"own{j}.yaml").write_text(
                built_in.replace("You will", f"You are judge {j} and will")
            )
            own = f", template: own{j}" if j else ""
            (folder / "judges" / f"j{j}.yaml").write_text(
                f"engine: {{kind: openai, model: m{j}, base_url: '{server.url}/v1', api_key_env: null, orders: given, "
                f"scoring: text{own}}}\n"
            )
        (folder / "testsets" / "pairs.yaml").write_text(FILES + "prompt: preference\n")
        (folder / "care.yaml").write_text("fit: {resamples: 0}\ncanary: {items: 0}\nlabels: {pairs: labels.csv}\n")
        assert not run(folder).failures
    assert "new against old: better" in typed_line("gate", "pairs", "new", "--against", "old", "--workspace", folder)
    for prompt in ("prompt: preference\n", ""):  # without it three judges still ask by templates of their own
        (folder / "testsets" / "pairs.yaml").write_text(FILES + prompt)
        for columns in ((), ("--system", "left", "--system", "right")):
            assert '"system": "new"' in typed_line("rate", "pairs", "--workspace", folder, "--json", *columns)
    for column, sentence in (("maker", "no item has a value in the column 'maker'"), ("left", "the items are pairs")):
        assert sentence in typed_line("rate", "pairs", "--workspace", folder, "--system", column, code=2)


@pytest.mark.slow
def test_a_prompt_does_not_reverse_recorded_scores(two_systems):
    """The settings are refused before any question, and published results remain."""
    folder, grades = two_systems
    scores = [f"p{k},j{j},{-grade}" for k, row in grades.items() for j, grade in enumerate(row)]
    (folder / "scores.csv").write_text("\n".join(["item_id,judge,score", *scores]) + "\n")
    spec = folder / "testsets" / "pairs.yaml"
    recorded = FILES.replace("scale:", "  scores: {path: scores.csv}\nscale:")
    spec.write_text(recorded)
    assert not run(folder).failures
    published = query(folder, ESTIMATES)
    spec.write_text(recorded + "prompt: preference\n")
    wrong = "a high recorded score means that the left answer is better, but a high score by the template 'preference'"
    assert wrong in "".join(run(folder).failures.values())
    assert wrong in typed_line("doctor", "--workspace", folder, code=1)
    assert query(folder, ESTIMATES) == published
    spec.write_text(recorded)
    run(folder)
    assert query(folder, ESTIMATES) == published
