"""Record other libraries' results on simulated votes in rivals.json: ``make rivals``.

The libraries need torch and transformers, so they have a separate environment. For real panels, only accuracies are
recorded.
"""

import json
import os
import time
from importlib.metadata import version
from pathlib import Path

import choix
import krippendorff
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from crowdkit.aggregation import GLAD, MACE, DawidSkene
from snorkel.labeling.model import LabelModel

from tests.support.planted import PANELS, duels, votes

LIBRARIES = ("crowd-kit", "snorkel", "krippendorff", "choix", "scikit-learn", "numpy")


def crowd(grades: np.ndarray, classes: int) -> dict[str, tuple[np.ndarray, float]]:
    """Return the labels of each model, and its CPU seconds."""
    task, worker = np.nonzero(grades >= 0)
    frame = pd.DataFrame({"task": task, "worker": worker, "label": grades[task, worker]})
    found = {}
    for name, model in (("dawid_skene", DawidSkene(n_iter=100)), ("glad", GLAD()), ("mace", MACE())):
        start = time.process_time()
        labels = model.fit_predict(frame)
        found[name] = (labels.reindex(range(len(grades))).fillna(-1).to_numpy(int), time.process_time() - start)
    start = time.process_time()
    snorkel = LabelModel(cardinality=classes, verbose=False)
    snorkel.fit(grades, n_epochs=500, seed=0, progress_bar=False)
    found["label_model"] = (snorkel.predict(grades, tie_break_policy="abstain"), time.process_time() - start)
    return found


def civilcomments() -> tuple[np.ndarray, np.ndarray]:
    """Return gold and the votes above 4.5 of care_civilcomments."""
    folder = Path(os.environ["CARE_DATA_DIR"]) / "care_civilcomments"
    items = pq.read_table(folder / "items.parquet", columns=["item_id", "gold"]).to_pandas().set_index("item_id")
    long = pq.read_table(folder / "scores.parquet", columns=["item_id", "judge", "score"]).to_pandas()
    wide = long.pivot(index="item_id", columns="judge", values="score").reindex(items.index)
    wide = wide.loc[:, wide.isna().mean() <= 0.1]
    return items["gold"].to_numpy(), np.where(wide.isna(), -1, (wide > 4.5).astype(int)).astype(int)


def main() -> None:
    """Run each library once, and write the results."""
    out: dict[str, object] = {"versions": {name: version(name) for name in LIBRARIES}}
    for name, settings in PANELS.items():
        truth, grades, _ = votes(**settings)
        answers = crowd(grades, settings["classes"])
        reliability = np.where(grades >= 0, grades, np.nan).astype(float).T
        out[name] = {
            "labels": {
                model: "".join(str(v) if v >= 0 else "-" for v in label) for model, (label, _) in answers.items()
            },
            "accuracy": {model: float(np.mean(label == truth)) for model, (label, _) in answers.items()},
            "alpha": {
                level: float(krippendorff.alpha(reliability_data=reliability, level_of_measurement=level))
                for level in ("nominal", "ordinal", "interval")
            },
        }
    left, right, wins = duels()
    games = [(int(a), int(b)) if w else (int(b), int(a)) for a, b, w in zip(left, right, wins, strict=True)]
    out["bradley_terry"] = [float(v) for v in choix.ilsr_pairwise(6, games)]
    _, five_thousand, _ = votes(5, 5_000, 24, 2, 0.1)
    out["cpu_seconds, 5,000 x 24"] = {model: round(cpu, 2) for model, (_, cpu) in crowd(five_thousand, 2).items()}
    gold, grades = civilcomments()
    out["care_civilcomments, accuracy"] = {
        m: float(np.mean(label == gold)) for m, (label, _) in crowd(grades, 2).items()
    }
    Path(__file__).with_name("rivals.json").write_text(json.dumps(out, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
