"""Tests of ``care rate`` and ``care gate`` with files: output, exit codes, bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import care_eval
from tests.support.workspaces import typed_json, typed_line
from tests.support.workspaces import write_table as write

SYSTEMS = ("new", "old")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write five judges' scores of 2 x 200 answers; the new system is better, by less than the judges' difference."""
    path = tmp_path_factory.mktemp("rates")
    rng = np.random.default_rng(0)
    names = np.repeat(SYSTEMS, 200)
    quality = rng.normal(size=400) + 0.5 * (names == "new")
    gold = (rng.random(400) < expit(5 * quality)).astype(int)
    seen = quality + 1.0 * (names == "new")
    item_ids = [f"{name}-{k:03}" for k, name in enumerate(names)]
    write(path / "items.csv", ("item_id", "model"), zip(item_ids, names, strict=True))
    scores = [(i, *np.round(s + 0.5 * rng.normal(size=5), 3)) for i, s in zip(item_ids, seen, strict=True)]
    write(path / "scores.csv", ("item_id", "a", "b", "c", "d", "e"), scores)
    drawn = np.concatenate([rng.choice(np.flatnonzero(names == name), 60, replace=False) for name in SYSTEMS])
    labels = [(item_ids[k], gold[k], "random") for k in drawn]
    write(path / "labels.csv", ("item_id", "label", "drawn"), labels)
    write(path / "few.csv", ("item_id", "label", "drawn"), [*labels[:6], *labels[60:66]])
    return path


def of_systems(folder, command, *more, labels="labels.csv"):
    """Return the words of a command on the folder's files."""
    given = ("--labels", folder / labels, "--items", folder / "items.csv", "--system", "model")
    return command, folder / "scores.csv", *more, *given


def test_library_and_commands_give_the_same_rates_and_gates(folder):
    scores, items = pd.read_csv(folder / "scores.csv"), pd.read_csv(folder / "items.csv")
    labels = pd.read_csv(folder / "labels.csv")
    printed = typed_json(*of_systems(folder, "rate", "--population"))
    of_frames = care_eval.rate(scores, labels, items=items, system="model", population=True)
    assert [(rate.system, rate.value, rate.lo, rate.hi, rate.labels) for rate in of_frames.rates] == [
        (row["system"], row["value"], row["lo"], row["hi"], row["labels"]) for row in printed
    ]
    mapping = dict(zip(labels["item_id"], labels["label"], strict=True))
    of_mapping = care_eval.rate(scores, mapping, drawn="random", items=items, system="model", population=True)
    assert of_mapping.rates == of_frames.rates
    for more, options in (((), {}), (("--margin", 0.05), {"margin": 0.05})):
        (row,) = typed_json(*of_systems(folder, "gate", "new", "--against", "old", *more))
        decision = care_eval.gate(scores, "new", "old", labels, items=items, system="model", **options)
        found = decision.difference
        reported = [row[name] for name in ("outcome", "difference", "lo", "hi")]
        assert [decision.outcome, found.value, found.lo, found.hi] == reported


def test_answers_of_several_systems_are_no_runs_of_one(folder):
    (folder / "runs.csv").write_text(
        (folder / "items.csv").read_text().replace("\n", ",{}\n").format("split_unit", *(k % 200 for k in range(400)))
    )
    given = ("rate", folder / "scores.csv", "--labels", folder / "labels.csv", "--items", folder / "runs.csv")
    output = typed_line(*given)
    assert ("give --system model share" in output, "variance of a score" in output) == (True, False), output
    refused = typed_line(*given, "--pass-k", 2, code=2)
    assert "pass^2 needs the system of each run: all systems count as one" in refused


def test_a_sequential_gate_decides_and_rejects_unsupported_options(folder):
    gate = ("gate", "new", "--against", "old", "--sequential")
    assert "90% interval valid at every look" in typed_line(*of_systems(folder, *gate))
    (row,) = typed_json(*of_systems(folder, *gate))
    scores, items = pd.read_csv(folder / "scores.csv"), pd.read_csv(folder / "items.csv")
    labels = pd.read_csv(folder / "labels.csv")
    decision = care_eval.gate(scores, "new", "old", labels, items=items, system="model", sequential=True)
    assert (decision.outcome, decision.difference.lo) == (row["outcome"], row["lo"])
    rated = care_eval.rate(scores, labels, items=items, system="model", sequential=True, population=True)
    assert rated.difference("new", "old") == decision.difference
    both, bounds = ("--sequential", "--width", 0.03), ("--label-bounds", 0, 1)
    assert "cannot be combined with --sequential" in typed_line(*of_systems(folder, "rate", *both), code=2)
    assert "is only for --sequential" in typed_line(*of_systems(folder, "rate", *bounds), code=2)
    weighted = [
        (*line.split(","), 0.1 + 0.2 * (k % 2))
        for k, line in enumerate((folder / "labels.csv").read_text().split()[1:])
    ]
    write(folder / "weighted.csv", ("item_id", "label", "drawn", "probability"), weighted)
    refused = typed_line(*of_systems(folder, *gate, labels="weighted.csv"), code=2)
    assert "needs a simple random sample" in refused


def test_labels_of_unknown_sampling_are_refused(folder):
    """All commands and Python functions that estimate for all items refuse them, also for a single empty cell."""
    table = pd.read_csv(folder / "labels.csv")
    table[["item_id", "label"]].to_csv(folder / "plain.csv", index=False)
    table.assign(drawn=["", *table["drawn"][1:]]).to_csv(folder / "one_empty.csv", index=False)
    commands = (("rate",), ("gate", "new", "--against", "old"))
    for command in commands:
        refused = typed_line(*of_systems(folder, *command, labels="plain.csv"), code=2)
        assert "plain.csv: cannot use these labels: for 120 of 120 labels, no column states how" in refused
        assert "add a column `drawn` (random or chosen)" in refused
        assert "--drawn random" in refused
        one_empty = typed_line(*of_systems(folder, *command, labels="one_empty.csv"), code=2)
        assert "use these labels: for 1 of 120 labels" in one_empty
        declared = of_systems(folder, *command, "--drawn", "random", labels="plain.csv")
        assert typed_json(*declared) == typed_json(*of_systems(folder, *command))
        assert "as declared, CARE treats it as random" in typed_line(*declared)
    report = ["judges", "report", folder / "scores.csv", "--labels", folder / "plain.csv", "--cut", "0.5"]
    typed_line(*report, code=2)
    typed_line(*report, "--drawn", "random")
    with pytest.raises(care_eval.InputError, match=r'states how the item .*drawn="random" in Python'):
        care_eval.rate(folder / "scores.csv", dict(zip(table["item_id"], table["label"], strict=True)))
    with pytest.raises(care_eval.InputError, match="`drawn` must be random, chosen or empty, got 'nix'"):
        care_eval.rate(folder / "scores.csv", {"i0": 1.0}, drawn="nix")
    typed_line(*of_systems(folder, "rate", "--drawn", "chosen"), code=2)


def test_items_to_label_are_a_random_sample_that_can_grow(folder):
    out, gold = folder / "out", {}
    fit = ["fit", folder / "scores.csv", "--out", out, "--intervals", 0, "--aggregator", "care"]
    typed_line(*fit)
    for k in range(2):
        frame = pd.read_csv(out / "to_label.csv", dtype=str, keep_default_na=False)
        assert list(frame.columns) == ["item_id", "label", "drawn", "probability"]
        assert set(frame["drawn"]) == {"random"}
        assert (frame["label"] == "").sum() == 20
        assert len(frame) == 20 * (k + 1)
        frame["label"] = [gold.setdefault(item, str(int(item[-1]) % 2)) for item in frame["item_id"]]
        frame.to_csv(out / "to_label.csv", index=False)
        output = typed_line(*fit, "--labels", out / "to_label.csv")
        assert f"CARE added 20 unlabelled items to {out / 'to_label.csv'} and changed no label there" in output
    assert typed_json("rate", folder / "scores.csv", "--labels", out / "to_label.csv")[0]["labels"] == 40


def test_exit_codes_of_the_gate(folder):
    better, worse = ("gate", "new", "--against", "old"), ("gate", "old", "--against", "new")
    assert "new against old: better, difference +0." in typed_line(*of_systems(folder, *better))
    assert "old against new: worse, difference -0." in typed_line(*of_systems(folder, *worse), code=3)
    undecided = of_systems(folder, *better, "--level", "0.999", labels="few.csv")
    assert "label more items" in typed_line(*undecided, code=4)
    write(folder / "three.csv", ("item_id", "label", "drawn"), [(f"new-00{k}", k % 2, "random") for k in range(3)])
    of_three = of_systems(folder, *better, labels="three.csv")
    assert "not decided: new has 3 labels" in typed_line(*of_three, code=4)
    assert typed_json(*of_three, code=4)[0]["outcome"] == "undecided"
    assert typed_json(*of_systems(folder, *worse, "--margin", "0.9"))[0]["outcome"] == "not worse"


def test_what_is_wrong_is_named(folder):
    write(folder / "strange.csv", ("item_id", "label", "drawn"), [("nobody", 1, "random")])
    write(folder / "picked.csv", ("item_id", "label", "drawn"), [("new-000", 1, "chosen"), ("old-200", 0, "chosen")])
    write(folder / "chance.csv", ("item_id", "label", "chance"), [("new-000", 1, 1.5)])
    labels, system = ("--labels", folder / "labels.csv"), ("--system", "model")
    cases = {
        ("--labels", folder / "strange.csv"): "no scores for 1 labelled item, such as 'nobody'",
        ("--labels", folder / "chance.csv"): "item 'new-000' has the sampling probability 1.5; give one in (0, 1]",
        ("--labels", folder / "picked.csv"): "all 2 labelled items were chosen with an unknown probability",
        (*labels, *system): "--system model names a column of the items table, but --items is missing",
        (*labels, "--fit-labels", folder / "few.csv"): "--fit-labels",
    }
    for options, sentence in cases.items():
        assert sentence in typed_line("rate", folder / "scores.csv", *options, code=2)
    for given, missing in {
        (): "--labels labels.csv and --system model (a column of --items)",
        labels: "--system model (a column of --items)",
        system: "--labels labels.csv",
    }.items():
        output = typed_line("gate", folder / "scores.csv", "new", "--against", "old", *given, code=2)
        assert f"nothing was compared: give {missing} or, for a test set, --workspace" in output
    output = typed_line(*of_systems(folder, "gate", "newer", "--against", "old"), code=2)
    assert "no item belongs to the system newer; choose" in output
    typed_line(*of_systems(folder, "rate", labels="strange.csv"), code=2)


@pytest.mark.parametrize("command", [("fit",), ("judges", "report")])
def test_the_help_of_cut_exempts_labels_of_0_and_1(command):
    printed = typed_line(*command, "--help").partition("--cut")[2]
    assert "abels of 0 and 1 already mean fail and pass" in printed


def test_a_judge_is_reported_in_plain_sentences(folder):
    given = ["judges", "report", folder / "scores.csv", "--labels", folder / "labels.csv", "--cut", "0.5"]
    printed = typed_line(*given, "--of", "a")
    for words in ("of the answers that people passed, the judge passed", "kappa"):
        assert words in printed
    rows = typed_json(*given)
    assert [row["judge"] for row in rows] == ["panel", *"abcde"]
    for row in rows[1:]:
        assert row["labels"] == 120
        assert row["passed_of_passed"]["lo"] < row["passed_of_passed"]["value"] < row["passed_of_passed"]["hi"]
    cases = {
        ("--of", "nobody"): "no judge 'nobody'; choose from a, b, c, d, e",
        ("--by", "nothing"): "choose kappa, weighted_kappa, auc",
        ("--fit-labels", folder / "few.csv"): "--fit-labels",
    }
    for options, sentence in cases.items():
        assert sentence in typed_line(*given, *options, code=2)
    assert "--cut 99: no scores are above this cut" in typed_line(*given[:-1], 99, code=2)
    assert "give --cut, the score above which an answer passes" in typed_line(*given[:-2], code=2)


def test_a_judge_may_gate_if_its_interval_is_above_the_bar(folder):
    """Exit codes: 0 above the bar, 3 below, 4 in between, with the number of labels to decide."""
    given = ["judges", "report", folder / "scores.csv", "--labels", folder / "labels.csv", "--cut", "0.5"]
    panel, *judges = typed_json(*given)
    kappa = panel["people"]["kappa"]
    assert all(kappa["value"] > judge["people"]["kappa"]["value"] - 0.1 for judge in judges)
    for bar, code, outcome in ((kappa["lo"] - 0.02, 0, "yes"), (kappa["value"], 4, "not yet"), (0.99, 3, "no")):
        printed = typed_line(*given, "--bar", f"{bar:.4f}", "--gate", code=code)
        assert f"approve releases? {outcome}: kappa {kappa['value']:.2f}" in printed
        typed_line(*given, "--bar", f"{bar:.4f}")  # without --gate a report is no decision
    near = typed_json(*given, "--bar", f"{(kappa['value'] + kappa['lo']) / 2:.4f}")[0]["gate"]
    assert near["more_labels"] is None, "three times as many labels as there are would decide"
    assert f"{panel['people']['unlabelled']} unlabelled items would probably not be enough" in near["remedy"]
    typed_line(*given, "--of", "a", "--by", "auc", "--bar", 0.5, "--gate")
    assert "can panel" not in typed_line(*given, "--of", "a")


def test_labels_that_contradict_every_judge_are_reported(folder):
    header, *rows = (folder / "labels.csv").read_text().splitlines()
    place = header.split(",").index("label")

    def turned(row: str) -> str:
        cells = row.split(",")
        return ",".join([*cells[:place], f"{1 - float(cells[place]):g}", *cells[place + 1 :]])

    right = typed_line(*of_systems(folder, "gate", "new", "--against", "old"))
    (folder / "turned.csv").write_text("\n".join([header, *map(turned, rows)]) + "\n")
    wrong = typed_line(*of_systems(folder, "gate", "new", "--against", "old", labels="turned.csv"), code=3)
    assert ["the labels contradict the judges" in result for result in (right, wrong)] == [False, True]
