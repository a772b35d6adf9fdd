"""A team's workspace with recorded judges, and what happens to it from night to night: for the soaks over nights.

Belongs here: the workspace and its changes. Belongs elsewhere: running nights, or what is measured of them.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from tests.support.workspaces import write_items, write_testset

_CARE = "fit: {resamples: 0, aggregators: [care, avg, care_svd]}\nreview: {hold: false}\n"
_ITEMS = 40
_SIZE = "size.txt"
"""File with the number of judges that the team keeps, so that files grow only by what piles up from night to night."""


def workspace(folder: Path, *, testsets: int, judges: int) -> Path:
    """Make a workspace of test sets with forty items each, and judges that have scored all of them."""
    for sub in ("judges", "testsets"):
        (folder / sub).mkdir(parents=True)
    (folder / "care.yaml").write_text(_CARE)
    for name in (f"set{k}" for k in range(testsets)):
        write_testset(folder, name)
        file = folder / "testsets" / f"{name}.yaml"
        file.write_text(file.read_text().replace("scale:", f"  scores: {{path: {name}-scores.csv}}\nscale:"))
        write_items(folder, _ITEMS, name=name)
    (folder / _SIZE).write_text(str(judges))
    _record(folder, [f"judge{k:02d}" for k in range(judges)])
    return folder


def change(folder: Path, rng: np.random.Generator, night: int) -> str:
    """Make one random change to the workspace; returns a phrase that says which."""
    kind = int(rng.integers(5))
    size = int((folder / _SIZE).read_text())
    judges = (folder / "judges.txt").read_text().splitlines()
    testset = str(rng.choice(_testsets(folder)))
    if kind < 2:
        if len(judges) > size:
            _record(folder, [j for k, j in enumerate(judges) if k != night % len(judges)])
            return "a judge leaves"
        _record(folder, [*judges, f"judge{size + night}"])
        return "a judge comes"
    file = folder / f"{testset}.csv"
    if kind == 2:
        file.write_text(file.read_text().replace(",0\n", ",9\n", 1))
        return f"a label of {testset} changes"
    if kind == 3:
        write_items(folder, len(file.read_text().splitlines()) + 1, name=testset)
        _record(folder, judges)
        return f"{testset} has two items more"
    text = file.read_text()
    file.write_text(text.replace(",Rome", f",Rome {night}", 1))
    return f"an item of {testset} is edited"


def _testsets(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "testsets").glob("*.yaml"))


def _record(folder: Path, judges: list[str]) -> None:
    """Write the scores of every judge on every test set: quality, a bias that every third judge shares, and noise."""
    (folder / "judges.txt").write_text("\n".join(judges))
    for name in _testsets(folder):
        n = len((folder / f"{name}.csv").read_text().splitlines()) - 1
        truth = [_draw(name, k) for k in range(n)]
        lines = ["item_id," + ",".join(judges)]
        for k, (quality, bias, _) in enumerate(truth):
            scores = [5 + quality + (zlib.crc32(j.encode()) % 3 == 0) * bias + _draw(name, k, j)[2] for j in judges]
            lines.append(f"i{k}," + ",".join(f"{min(max(s, 0), 10):.2f}" for s in scores))
        (folder / f"{name}-scores.csv").write_text("\n".join(lines) + "\n")


def _draw(*what: object) -> np.ndarray:
    return np.random.default_rng(zlib.crc32(repr(what).encode())).standard_normal(3)
