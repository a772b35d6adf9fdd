"""The paper's experiments as assets: made where asked for, once, with the same digits."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.stats import false_discovery_control, spearmanr, studentized_range

from assets.experiments.asset import KEYS, experiments, outdated
from assets.experiments.interpretation import benjamini_hochberg, permuted
from assets.experiments.rates import slope_of
from assets.experiments.regimes import accuracies
from assets.experiments.robustness import TRANSFORMATIONS
from assets.experiments.tables import mean_ranks
from care_ops.regimes import second_order_insufficient, second_order_sufficient
from orchestration.workspace import load_workspace
from tests.orchestration.workspaces import make, run, write_items

pytestmark = pytest.mark.slow

QUICK = "key:tensor_against_svd or key:injected_bias or key:quality_factor"


def says(workspace, key):
    kept = experiments()[key].kept(workspace)
    return None if kept is None else kept["findings"]


def test_made_where_asked_for_and_again_where_what_they_read_has_changed(tmp_path):
    folder = make(tmp_path / "ws", n=80)
    first = run(folder)
    assert not first.failures
    assert not {asset for asset, _ in first.materialised} & set(KEYS), "no night needs them"
    workspace = load_workspace(folder)
    assert outdated(workspace) == list(KEYS)

    made = run(folder, selection=QUICK)
    assert {asset for asset, _ in made.materialised} == {"tensor_against_svd", "injected_bias", "quality_factor"}
    assert set(outdated(workspace)) == set(KEYS) - {a for a, _ in made.materialised}
    page = (workspace.report_folder / "experiment-quality_factor.html").read_text()
    assert says(workspace, "quality_factor")["says"][0].split(":")[0] == "one"
    assert "Each factor taken for quality in turn" in page
    assert run(folder, selection=QUICK).materialised == [], "what is done stays done"

    before = says(workspace, "tensor_against_svd")
    experiments()["tensor_against_svd"].file(workspace).unlink()
    assert {a for a, _ in run(folder, selection=QUICK).materialised} == {"tensor_against_svd"}
    assert says(workspace, "tensor_against_svd") == before, "equal seeds, equal digits"

    write_items(folder, n=80, edited=3)
    again = run(folder, selection=f"key:panel or key:scores or key:judge_inference or key:items or {QUICK}")
    assert {a for a, _ in again.materialised} & set(KEYS) == {"quality_factor", "injected_bias"}
    kept = json.loads(experiments()["tensor_against_svd"].file(workspace).read_text())
    assert kept["full"] is False


def test_killed_in_the_middle_it_goes_on_with_the_next(tmp_path):
    folder = make(tmp_path / "ws", n=80)
    workspace = load_workspace(folder)
    selection = "key:orthogonality or key:tensor_against_svd"
    command = [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(folder), "--select", selection]
    first, second = (experiments()[key].file(workspace) for key in ("orthogonality", "tensor_against_svd"))
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not first.exists():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    assert not second.exists()
    done = first.read_bytes()
    assert {asset for asset, _ in run(folder, selection=selection).materialised} == {"tensor_against_svd"}
    assert first.read_bytes() == done


def test_each_regime_is_what_the_paper_says_of_its_draw():
    whole = second_order_insufficient(np.random.default_rng(0), 1.0, truth=1, n=40_000)
    states = 2 * whole.confounder + whole.quality
    assert np.bincount(states) / 40_000 == pytest.approx(0.25, abs=0.01)
    means = np.array([whole.scores[states == s].mean(axis=0) for s in range(4)])
    assert means == pytest.approx(whole.means, abs=0.01)
    by_quality, by_confounder = means[1] - means[0], means[2] - means[0]
    for view in whole.views:
        assert (by_quality[view] > 0.3).tolist() == [True] * 3 + [False] * 8 + [True]
        assert (by_confounder[view] > 0.3).tolist() == [False] * 3 + [True] * 9
    none = second_order_sufficient(np.random.default_rng(0), 0.0, "unequal", truth=1, n=2_000)
    assert np.array_equal(none.means[0], none.means[2])
    assert np.array_equal(none.means[1], none.means[3])


def test_states_mapped_by_labels_find_quality_where_means_do_not():
    found = accuracies(second_order_insufficient(np.random.default_rng(5), 1.0, truth=5), 5)
    assert found["care_tensor"] >= 0.99
    assert found["avg"] < 0.8


def test_a_slope_and_its_interval():
    sizes = np.array([100.0, 1_000.0, 10_000.0])
    rng = np.random.default_rng(0)
    errors = 3 / np.sqrt(sizes) * np.exp(0.1 * rng.standard_normal((40, 3)))
    slope, low, high = slope_of(sizes, errors)
    assert low < slope < high
    assert slope == pytest.approx(-0.5, abs=0.02)
    assert high - low < 0.05


def test_mean_ranks_leave_out_who_did_not_answer_everywhere():
    orders = {
        "a": {"x": 0.9, "y": 0.8, "z": 0.7, "w": 0.95},
        "b": {"x": 0.6, "y": 0.7, "z": 0.5, "w": float("nan")},
    }
    ranks, difference = mean_ranks(orders)
    assert ranks == {"x": 1.5, "y": 1.5, "z": 3.0}
    # Demsar's table: q at .05 for three classifiers is 2.343
    assert float(studentized_range.ppf(0.95, 3, np.inf)) / np.sqrt(2) == pytest.approx(2.343, abs=0.001)
    assert difference == pytest.approx(2.343 * np.sqrt(3 * 4 / 12), abs=0.001)


def test_permutation_p_values_and_discoveries_agree_with_scipy():
    rng = np.random.default_rng(1)
    latent = rng.normal(size=(60, 2))
    features = np.column_stack([latent[:, 0] + rng.normal(size=60), rng.normal(size=60), np.full(60, 3.0)])
    correlations, p_values = permuted(latent, features, 4_000)
    for r in range(2):
        for c in range(2):
            found = spearmanr(latent[:, r], features[:, c])
            assert correlations[r, c] == pytest.approx(found[0], abs=1e-12)
            assert p_values[r, c] == pytest.approx(found[1], abs=0.03)
    assert np.isnan(p_values[:, 2]).all(), "a constant feature has no correlation"
    known = p_values[:, :2].ravel()
    assert (
        benjamini_hochberg(p_values, 0.05)[:, :2].ravel().tolist() == (false_discovery_control(known) <= 0.05).tolist()
    )
    assert not benjamini_hochberg(p_values, 0.05)[:, 2].any()


def test_transformations_keep_what_was_said():
    text = "Rome is the capital. It is old. It lies by the Tiber."
    words = {name: transform(text).split() for name, transform in TRANSFORMATIONS.items()}
    for name, told in words.items():
        stripped = [word.strip("*✨🌟-") for word in told]
        assert [word for word in stripped if word][: len(text.split())] == text.split(), name
    assert len(words["verbosity"]) >= 2 * len(text.split())
    assert "[1]." in words["authority"]
    assert TRANSFORMATIONS["beauty"]("") is not None
