"""Judges on declared GPUs, with real Ray actors and a vLLM that sleeps instead of computing (``stub_vllm``)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.items import Item, Score
from judges.pool import Pool, PoolConfig
from judges.spec import JudgeSpec, LocalModel

STUB = Path(__file__).parent / "stub_vllm"
ITEMS = [Item(f"i{k}", f"question {k}", f"answer {k}") for k in range(40)]
BATCH = 10


@dataclass(frozen=True)
class Load:
    """Load of a model: arguments, process, GPUs and time."""

    model: str
    options: dict[str, Any]
    pid: int
    gpus: tuple[str, ...]
    at: float


@dataclass(frozen=True)
class Placed:
    """Loads and scores of some judges, and the seconds from the first load to the end."""

    loads: list[Load]
    scores: dict[str, list[Score]]
    seconds: float


def judge(name: str, folder: Path, scale: tuple[float, float] = (1, 5), **engine: Any) -> JudgeSpec:
    """Return a judge with a separate folder as its model."""
    model = folder / name
    model.mkdir(exist_ok=True)
    settings = {"kind": "vllm", "model": str(model), "template": "quality", "min_valid_mass": 0.0, **engine}
    return JudgeSpec(name=name, engine=LocalModel(**settings), scale=scale, batch_size=BATCH)


@contextmanager
def declared_gpus(count: int, log: Path, *, load_s: float = 1.0, score_s: float = 0.1) -> Iterator[None]:
    """Run a local Ray instance with declared GPUs, whose actors import the stand-in for vLLM."""
    import ray

    kept = dict(os.environ)
    path = os.pathsep.join(filter(None, (str(STUB), os.environ.get("PYTHONPATH"))))
    os.environ |= {
        "PYTHONPATH": path,
        "VLLM_STUB_LOG": str(log),
        "VLLM_STUB_LOAD_S": str(load_s),
        "VLLM_STUB_SCORE_S": str(score_s),
    }
    os.environ.pop("RAY_ADDRESS", None)
    try:
        ray.init(num_cpus=4, num_gpus=count, include_dashboard=False, log_to_driver=False, configure_logging=False)
        yield
    finally:
        ray.shutdown()
        os.environ.clear()
        os.environ.update(kept)


def loads_in(log: Path) -> list[Load]:
    """Return the loads that the stand-in has logged."""
    loads: list[Load] = []
    for line in log.read_text().splitlines() if log.exists() else ():
        options = json.loads(line)
        gpus = tuple(gpu for gpu in options.pop("gpus").split(",") if gpu)
        loads.append(Load(Path(options["model"]).name, options, options.pop("pid"), gpus, options.pop("at")))
    return loads


def place(judges: Sequence[Sequence[JudgeSpec]], config: PoolConfig, log: Path) -> Placed:
    """Run judges together in one session; each judge has a specification for each test set."""
    scores: dict[str, list[Score]] = {}

    def one(specs: Sequence[JudgeSpec]) -> None:
        mine = scores.setdefault(specs[0].name, [])
        with pool.session(specs[0].engine.gpus) as session:
            for spec in specs:
                session.run(spec, ITEMS, lambda batch, _: mine.extend(batch))

    with Pool(config) as pool, ThreadPoolExecutor(len(judges)) as threads:
        for done in [threads.submit(one, specs) for specs in judges]:
            done.result()
    loads = loads_in(log)
    return Placed(loads, scores, time.time() - min(load.at for load in loads))
