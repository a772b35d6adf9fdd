"""Tests of the paper's experiments as assets: run once, on request, with the same digits."""

import inspect
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from assets.experiments.base import ExperimentFindings, read_stored
from assets.experiments.factors import tensor_confounder
from assets.experiments.panels import ExperimentPanel, with_columns
from assets.experiments.paper_tables import recorded, tuned
from assets.experiments.program_integration import greedy
from assets.experiments.regimes import BASELINES, ORACLE, WRITTEN, accuracies, measures_of, sentence, swept
from assets.experiments.registry import KEYS, experiments, stale
from assets.experiments.theory import conditional_mean_errors, errors_at
from assets.experiments.versions import Versions, changes
from assets.state.retention import forget
from care_ops.aggregators.care_tensor import fit_states
from care_ops.config import FitConfig
from care_ops.errors import FitError, InputError
from care_ops.fit import fit_panel
from care_ops.scores import ScoreMatrix
from care_ops.selection import fit_grid
from care_ops.simulate import SUFFICIENT_TABLES, second_order_insufficient, second_order_sufficient
from judges import prompts
from orchestration.workspace import load_workspace
from tests.support.workspaces import JUDGES, care, make, run, write_items
from warehouse import catalog

LITERAL = FitConfig(placement="weights")
EVERY = experiments()
QUICK = "key:tensor_against_svd or key:injected_bias or key:quality_factor"


def findings(workspace, key):
    return read_stored(workspace, key).findings


@pytest.mark.slow
def test_experiments_run_on_request_and_again_when_their_inputs_change(tmp_path):
    folder = make(tmp_path / "ws", n=80)
    first = run(folder)
    assert not first.failures
    assert not {asset for asset, _ in first.materialised} & set(KEYS), "no nightly run needs them"
    workspace = load_workspace(folder)
    assert stale(workspace) == list(KEYS)

    built = run(folder, selection=QUICK)
    assert {asset for asset, _ in built.materialised} == {"tensor_against_svd", "injected_bias", "quality_factor"}
    assert set(stale(workspace)) == set(KEYS) - {a for a, _ in built.materialised}
    page = (workspace.report_folder / "experiment-quality_factor.html").read_text()
    assert findings(workspace, "quality_factor").conclusions[0].split(":")[0] == "one"
    assert "Each factor in turn as the quality factor" in page
    assert run(folder, selection=QUICK).materialised == [], "they are current"

    before = findings(workspace, "tensor_against_svd")
    workspace.experiment_file("tensor_against_svd").unlink()
    assert {a for a, _ in run(folder, selection=QUICK).materialised} == {"tensor_against_svd"}
    assert findings(workspace, "tensor_against_svd") == before, "equal seeds, equal digits"

    write_items(folder, n=80, edited=3)
    again = run(folder, selection=f"key:panel or key:scores or key:judge_inference or key:items or {QUICK}")
    assert {a for a, _ in again.materialised} & set(KEYS) == {"quality_factor", "injected_bias"}
    assert "seeds 5; " in (workspace.report_folder / "experiment-tensor_against_svd.html").read_text()


def test_every_experiment_accepts_the_parameters_of_its_sizes():
    for key, experiment in experiments().items():
        accepted = [p for p in inspect.signature(experiment.run).parameters.values() if p.kind is p.KEYWORD_ONLY]
        assert [p.name for p in accepted] == list(experiment.small) == list(experiment.full), key


@pytest.mark.slow
def test_a_killed_run_continues_with_the_next_experiment(tmp_path):
    folder = make(tmp_path / "ws", n=80)
    workspace = load_workspace(folder)
    selection = "key:orthogonality or key:tensor_against_svd"
    command = [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(folder), "--select", selection]
    first, second = (workspace.experiment_file(key) for key in ("orthogonality", "tensor_against_svd"))
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not first.exists():
        assert process.poll() is None, "it ended before the kill"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    assert not second.exists()
    done = first.read_bytes()
    assert {asset for asset, _ in run(folder, selection=selection).materialised} == {"tensor_against_svd"}
    assert first.read_bytes() == done


def test_each_regime_draws_from_the_papers_model():
    whole = second_order_insufficient(np.random.default_rng(0), 1.0, truth=1, n=40_000)
    states = 2 * whole.confounder + whole.quality
    assert np.bincount(states) / 40_000 == pytest.approx(0.25, abs=0.01)
    means = np.array([whole.scores[states == s].mean(axis=0) for s in range(4)])
    assert means == pytest.approx(whole.means, abs=0.01)
    by_quality, by_confounder = means[1] - means[0], means[2] - means[0]
    for view in whole.views:
        assert (by_quality[view] > 0.3).tolist() == [True] * 3 + [False] * 8 + [True]
        assert (by_confounder[view] > 0.3).tolist() == [False] * 3 + [True] * 9
    none = second_order_sufficient(np.random.default_rng(0), 0.0, SUFFICIENT_TABLES["unequal"], truth=1, n=2_000)
    assert np.array_equal(none.means[0], none.means[2])
    assert np.array_equal(none.means[1], none.means[3])
    draws = [second_order_sufficient(np.random.default_rng(0), 1.0, t, truth=1) for t in SUFFICIENT_TABLES.values()]
    for draw in (whole, *draws):
        for view in draw.views:
            assert np.linalg.svd(draw.means[:, view])[1][3] > 0.01, "four means of a view have rank 4, as assumed"


@pytest.mark.slow
def test_algorithm_2_with_oracle_views_finds_quality_where_second_moments_follow_the_confounder():
    accuracy = accuracies(second_order_insufficient(np.random.default_rng(5), 1.0, truth=5), 5)
    assert accuracy[ORACLE] >= 0.99
    assert accuracy["care_tensor"] >= 0.99
    for name in (*BASELINES, WRITTEN):
        assert accuracy.get(name, 0.5) < 0.8, name


def test_refusals_are_counted_and_do_not_lower_the_mean():
    draws = {0.0: [{"avg": 1.0}], 1.0: [{"avg": 0.5, ORACLE: 0.9}, {"avg": 0.6}]}
    measures = measures_of(draws)
    assert measures[f"{ORACLE}, lowest mean"] == 0.9
    assert measures[f"{ORACLE}, refused"] == 0.5, "draws of strength zero count separately"
    assert measures["avg, lowest mean"] == pytest.approx(0.55)
    assert f"{ORACLE} 0.900 (no estimate on 50% of the draws)" in sentence(measures)
    _, row = swept(draws, "c", "accuracy")[0].rows
    assert row[ORACLE] == "0.900 ± 0.000; no estimate on 1 of 2"


def test_the_profile_of_the_paper_fits_its_algorithms_and_baselines(tmp_path):
    (tmp_path / "care.yaml").write_text("fit: {profile: paper, seed: 3, resamples: 0}\n")
    config = load_workspace(tmp_path).fit
    assert config.aggregators[:2] == ("care_svd", "care_tensor_paper")
    assert {"ws", "dawid_skene", "glad", "mace"} <= set(config.aggregators)
    assert (config.placement, config.seed) == ("weights", 3)
    assert FitConfig.of({"profile": "paper", "aggregators": ("avg",)}).aggregators == ("avg",), "explicit settings win"
    with pytest.raises(InputError, match="use care or paper"):
        FitConfig.of({"profile": "authors"})
    draw = second_order_insufficient(np.random.default_rng(5), 1.0, truth=5, n=500)
    panel = a_panel(draw.scores, draw.quality)
    assert set(fit_panel(panel.scores, replace(config, cut=float(draw.scores.mean()))).aggregates) == set(
        config.aggregators
    )


def test_subtracting_confounders_helps_where_loadings_overlap_and_hurts_where_they_are_orthogonal():
    orthogonal, overlapping = (errors_at(overlap, 10_000, 3) for overlap in (0.0, 0.4))
    assert orthogonal["confounders subtracted"] > orthogonal["leading factor"] + 0.01
    assert overlapping["confounders subtracted"] < overlapping["leading factor"] - 0.01
    for errors in (orthogonal, overlapping):
        assert errors["best possible"] == pytest.approx(1 / 3, abs=0.02), "quality's own loadings"
        assert errors["best possible"] < min(errors["leading factor"], errors["confounders subtracted"])


def test_the_error_of_the_conditional_mean_is_within_the_corollarys_bound():
    rng, largest = np.random.default_rng(4), list[float]()
    for _ in range(200):
        connection, precision = rng.normal(size=(8, 3)) * (1.0, 0.3, 0.3), rng.uniform(0.5, 2.0, 3)
        scores, quality = rng.normal(size=(50, 8)), connection[:, 0]
        errors, bounds = conditional_mean_errors(connection, precision, scores)
        confounders = np.linalg.norm(connection[:, 1:] / precision[1:] @ connection[:, 1:].T, 2)
        assert bounds == pytest.approx(2 * confounders / np.linalg.norm(quality) * np.linalg.norm(scores, axis=1))
        if confounders <= quality @ quality / precision[0] / 2:
            largest.append(float((errors / bounds).max()))
    assert len(largest) > 100
    assert 0.1 < max(largest) <= 1
    unconfounded, _ = conditional_mean_errors(quality[:, None], precision[:1], scores)
    assert unconfounded == pytest.approx(0, abs=1e-12), "without confounders nothing is misspecified"


def a_panel(values: np.ndarray, gold: np.ndarray, **config: object) -> ExperimentPanel:
    n, p = values.shape
    ids = tuple(f"i{k:05}" for k in range(n))
    scores = ScoreMatrix(values, ids, tuple(f"j{k:02}" for k in range(p)))
    return ExperimentPanel("one", scores, gold, list(ids), [None] * n, FitConfig(**config))


def test_penalties_are_chosen_on_one_split_and_evaluated_on_the_other():
    rng = np.random.default_rng(8)
    quality = rng.normal(size=400)
    panel = a_panel(quality[:, None] + rng.normal(size=(400, 6)), quality)
    estimates = [
        answer.aggregate.estimate for answer in fit_grid(panel.scores, LITERAL, "care_svd") if answer.aggregate
    ]
    expected = list[float]()
    for seed in range(2):
        chooses = np.isin(np.arange(400), np.random.default_rng([seed, 51]).permutation(400)[:60])
        best = min(estimates, key=lambda e: np.abs(e - quality)[chooses].mean())
        expected.append(float(np.abs(best - quality)[~chooses].mean()))
    assert tuned(panel, panel.scores, quality, "care_svd", 2) == pytest.approx(expected)
    constant = np.column_stack([panel.scores.values, np.ones(400)])
    scores = ScoreMatrix(constant, panel.scores.item_ids, (*panel.scores.judges, "k"))
    assert tuned(panel, scores, quality, "care_svd", 2) == pytest.approx(expected), "a constant judge stays out"


def test_a_recorded_judge_that_misses_more_than_a_tenth_is_dropped_as_any_other(monkeypatch):
    values = np.random.default_rng(9).normal(size=(100, 4))
    values[:11, 1] = values[:10, 2] = np.nan
    panel = a_panel(values, values[:, 0])
    monkeypatch.setattr("assets.experiments.paper_tables.read_scores", lambda _connection, _testset: panel.scores)
    workspace = SimpleNamespace(warehouse=SimpleNamespace(reader=nullcontext), judges={})
    kept, dropped = recorded(workspace, panel)
    assert (kept.judges, dropped) == (("j00", "j02", "j03"), ["j01"])


def test_greedy_integration_adds_helpful_judges_and_stops_after_four_steps_without_gain():
    rng = np.random.default_rng(3)
    n = 600
    quality, noise = rng.normal(size=n), rng.normal(size=(n, 13))
    panel = a_panel(0.5 * quality[:, None] + noise[:, :4], quality)
    columns = {"sharp": quality + 0.2 * noise[:, 4], **{f"noise {k}": noise[:, 5 + k] for k in range(8)}}
    programs = with_columns(panel.scores.select_judges([]), columns)
    validation = np.arange(n) % 10 == 0
    path, errors = greedy(panel, programs, validation)
    assert path[0] == "sharp"
    assert errors[1] < errors[0] - 0.05
    best = int(np.argmin(errors))
    assert len(path) == min(best + 4, len(columns)), "four steps without gain, then it ends"
    blind = a_panel(panel.scores.values, np.where(validation, panel.gold, -panel.gold))
    assert greedy(blind, programs, validation) == (path, errors), "labels outside the validation rows choose nothing"


@pytest.mark.parametrize("name", ["judgment_bias", "multi_subject_rlvr", "rlvr_openings"])
def test_bias_and_attack_prompts_do_not_reveal_the_label(name):
    template = prompts.find(yaml.safe_load(catalog.text(name))["prompt"])
    given = re.findall(
        r"style|decorat|citation|length|confiden|announce|opening", template.instructions + template.item
    )
    assert not given


def test_changes_measure_how_far_an_aggregate_moves():
    rng = np.random.default_rng(5)
    before = rng.normal(size=(200, 1)) + rng.normal(size=(200, 5))
    same = Versions("one", tuple("abcde"), {}, before, {"none": (np.arange(200), before.copy())}, FitConfig())
    assert "care_svd as written" in changes(same, "none")
    for distance, kept, error in changes(same, "none").values():
        assert distance == pytest.approx(0, abs=1e-9)
        assert kept == pytest.approx(1)
        assert error == pytest.approx(0, abs=1e-9)
    # every judge's scores rise by one standard deviation of the mean of all versions: so does the mean
    shift = np.full(5, 2.0)
    raised = Versions("one", tuple("abcde"), {}, before, {"up": (np.arange(200), before + shift)}, FitConfig())
    both = np.concatenate([before.mean(axis=1), before.mean(axis=1) + 2])
    distance, kept, error = changes(raised, "up")["avg"]
    assert distance == pytest.approx(2 / both.std())
    assert kept == pytest.approx(1)
    assert error == pytest.approx(2), "in points of the scale, as the paper's table"


def test_the_tensor_finds_the_planted_confounder():
    draw = second_order_insufficient(np.random.default_rng(6), 1.0, truth=6)
    estimated = tensor_confounder(a_panel(draw.scores, draw.quality.astype(float), cut=0.5), fit_states)
    assert estimated is not None
    agreement = np.mean((estimated > 0.5) == draw.confounder)
    mapped = np.mean((estimated > 0.5) == draw.quality)
    assert max(agreement, mapped, 1 - agreement, 1 - mapped) > 0.98, "one of the two factors of the state"


@pytest.mark.slow
def test_a_test_set_of_versions_is_scored_and_compared(tmp_path):
    folder = make(tmp_path / "ws", n=60)
    (folder / "testsets" / "dressed.yaml").write_text(
        "source: {kind: versions, of: one, changes: [verbosity, colon]}\nscale: [0, 10]\ncut: 5\n"
    )
    assert not run(folder).failures
    workspace = load_workspace(folder)
    ids = {record.item_id for record in workspace.parts.read_items("dressed")}
    assert {"i7", "i7 verbosity", "i0 colon"} <= ids
    assert len(ids) == 60 + 60 + 1
    keys = ("injected_bias", "adversarial_answers", "dummy_judges", "confounder_features")
    assert not run(folder, selection=" or ".join(f"key:{key}" for key in keys)).failures
    conclusions = findings(workspace, "dummy_judges").conclusions
    assert {line.split(":")[0].split(",")[0] for line in conclusions} == {"one"}
    bias = findings(workspace, "injected_bias")
    assert any(line.startswith("dressed, verbosity, change in sd:") for line in bias.conclusions)
    assert any("; 5 judges" in table.title for table in bias.tables)
    attacks = next(t.rows for t in findings(workspace, "adversarial_answers").tables if "dressed" in t.title)
    assert [row["attack"] for row in attacks] == ["colon"]
    assert {attacks[0][name] for name in ("mv", "avg", "ws")} <= {0.0, 1.0}, "one item is accepted or not"
    figures = [f for key in ("dummy_judges", "confounder_features") for f in findings(workspace, key).figures]
    assert figures
    assert all(v is None or -1 <= v <= 1 for figure in figures for row in figure.values for v in row)

    (folder / "testsets" / "dressed.yaml").write_text("source: {kind: versions, of: nobody}\n")
    with pytest.raises(
        InputError, match="because 'nobody' is not a test set with its own items; set `of` to one of one"
    ):
        load_workspace(folder)


@pytest.mark.slow
def test_an_item_is_forgotten_with_its_versions(tmp_path):
    folder = make(tmp_path / "ws", n=40)
    (folder / "testsets" / "dressed.yaml").write_text("source: {kind: versions, of: one, changes: [beauty]}\n")
    assert not run(folder).failures
    workspace = load_workspace(folder)
    removed = forget(workspace, "one", "i3")
    assert removed["items"] == 3, "the item and its two copies"
    assert not run(folder).failures
    for testset in ("one", "dressed"):
        assert not [r.item_id for r in workspace.parts.read_items(testset) if r.item_id.split()[0] == "i3"]
    of_items = [path for path in (folder / "data" / "parts").rglob("*.parquet") if path.parent.name != "bills"]
    assert len(of_items) > 2
    for part in of_items:
        assert not [i for i in pq.read_table(part, columns=["item_id"])["item_id"].to_pylist() if i.split()[0] == "i3"]


def quickly(monkeypatch, **runs):
    """Replace the computation of every experiment; inputs and order remain."""
    quick = {
        key: replace(experiment, run=runs.get(key, lambda _workspace, **_size: ExperimentFindings(["done"])))
        for key, experiment in EVERY.items()
    }
    monkeypatch.setattr("assets.experiments.registry.experiments", lambda: quick)


@pytest.mark.slow
def test_experiments_run_after_the_fits_and_a_failed_one_is_run_again(tmp_path, monkeypatch):
    folder = make(tmp_path / "ws", JUDGES[:3], n=20, care="fit: {aggregators: [avg], resamples: 0}\n")

    def fails(_workspace, **_size):
        raise FitError("the weights cancel")

    quickly(monkeypatch, theory_rates=fails, orthogonality=fails)
    output = care(folder, "run", "--experiments", code=1)
    assert "failed: theory_rates: the weights cancel" in output
    assert "failed: orthogonality: the weights cancel" in output
    workspace = load_workspace(folder)
    assert workspace.experiment_file("ledger").exists(), "it reads the stored findings"
    with workspace.warehouse.reader() as connection:
        assert connection.execute("SELECT count(*) FROM latest_fits").fetchone() != (0,)
    quickly(monkeypatch)
    assert not run(folder, selection="key:theory_rates").failures
    assert set(stale(workspace)) == {"orthogonality", "ledger"}
