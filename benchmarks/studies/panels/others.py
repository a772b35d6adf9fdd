"""crowd-kit, cje-eval and fewhumans on jobs of ``rivals``, in the environment of `make rivals`, which has none of ours.

``python others.py JOBS.npz ANSWERS.npz``. What belongs to a job is named ``NUMBER/PART``: ``crowd`` jobs hold graded
votes, ``calibrate`` and ``mean`` jobs one score an item and a few labels between 0 and 1.
"""

import sys
import warnings

import numpy as np
import pandas as pd
from cje.array_api import calibrated_mean_ci
from cje.calibration.judge import JudgeCalibrator
from crowdkit.aggregation import MMSR, DawidSkene, NoisyBradleyTerry, OneCoinDawidSkene, Wawa
from fewhumans.estimators import ppi_plus_mean

MODELS = {
    "Dawid-Skene": lambda: DawidSkene(n_iter=100),
    "one-coin Dawid-Skene": lambda: OneCoinDawidSkene(n_iter=100),
    "Wawa": Wawa,
}


def crowd(job: dict) -> dict:
    """Expected value of each item by each model of votes; of two answers also by the models that are made for two."""
    task, worker, label, values, n = (job[part] for part in ("task", "worker", "label", "values", "items"))
    frame = pd.DataFrame({"task": task, "worker": worker, "label": label})
    answers = {}
    for name, model in MODELS.items():
        if name == "one-coin Dawid-Skene" and "two" not in job:
            continue
        probability = model().fit_predict_proba(frame)
        answers[name] = np.full(int(n), np.nan)
        answers[name][probability.index.to_numpy(int)] = (
            probability.to_numpy() @ values[probability.columns.to_numpy(int)]
        )
    skill = MMSR().fit(frame).skills_.clip(1e-6, 1 - 1e-6)
    weight = np.log((len(values) - 1) * skill / (1 - skill)).reindex(worker).to_numpy()
    answers["M-MSR"] = np.bincount(task, weight * values[label], int(n))
    if "two" in job and 0.5 in values:
        answers["noisy Bradley-Terry"] = compared(frame, values, int(n))
    return answers


def compared(frame: pd.DataFrame, values: np.ndarray, n: int) -> np.ndarray:
    """Score of the left answer of each pair less that of the right one; a tie is no comparison there."""
    told = frame[values[frame.label] != 0.5]
    left, right = "l" + told.task.astype(str), "r" + told.task.astype(str)
    won = np.where(values[told.label] > 0.5, left, right)
    games = pd.DataFrame({"worker": told.worker, "left": left, "right": right, "label": won})
    score = NoisyBradleyTerry().fit_predict(games)
    score = np.log(score / (1 - score))
    return np.array([score.get(f"l{k}", 0.0) - score.get(f"r{k}", 0.0) for k in range(n)])


def calibrate(job: dict) -> dict:
    """Calibrated score of each item by cje-eval, from the score alone and with the features as covariates."""
    score, labels = job["score"], job["labels"]
    known, answers = ~np.isnan(labels), {}
    for name, covariates in (("cje-eval", None), ("cje-eval with words", job.get("features"))):
        calibrator = JudgeCalibrator(calibration_mode="auto" if covariates is None else "two_stage")
        calibrator.fit_cv(score, labels[known], known, covariates=covariates, quiet=True)
        used = covariates if calibrator.covariates_used else None
        answers[name] = calibrator.predict(score, used)
    return answers


def mean(job: dict) -> dict:
    """(value, lo, hi) of the mean label, 90 %."""
    score, labels = job["score"], job["labels"]
    known = ~np.isnan(labels)
    tuned = ppi_plus_mean(score[~known], labels[known], score[known], confidence=0.9)
    calibrated = calibrated_mean_ci(score, labels, alpha=0.1)
    return {
        "fewhumans, PPI++": np.array([tuned.value, tuned.lo, tuned.hi]),
        "cje-eval": np.array([calibrated.estimate, *calibrated.ci]),
    }


def main() -> None:
    """Every job."""
    warnings.simplefilter("ignore")
    given = np.load(sys.argv[1])
    jobs: dict = {}
    for name in given.files:
        number, _, part = name.partition("/")
        jobs.setdefault(number, {})[part] = given[name]
    kinds = {"crowd": crowd, "calibrate": calibrate, "mean": mean}
    answers = {}
    for number, job in jobs.items():
        for name, answer in kinds[str(job["kind"])](job).items():
            answers[f"{number}/{name}"] = answer
    np.savez(sys.argv[2], **answers)


if __name__ == "__main__":
    main()
