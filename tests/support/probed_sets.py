"""The sets of ``declared_probes`` as panels of program judges with their responses to probes.

Belongs here: reading a set's texts, asking the programs about items and versions. Belongs elsewhere: what is declared
(``declared_probes``), what is made of the responses.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from assets.judge_keys import judge_item
from care_ops.metrics import auc, is_binary, tau
from care_ops.probes import ProbeResponses
from care_ops.scores import ScoreMatrix
from judges.engines.program import ProgramJudgeEngine
from judges.panels import find as roster
from judges.programs import find, names
from tests.support import elements, procedures
from tests.support.declared_probes import DECLARED
from warehouse.items import ItemRecord
from warehouse.probes import SWAP, make, plan_of
from warehouse.sources import demo

Array = NDArray[np.float64]

MEANING = "0"
"""Value of care_asset's column ``aspect`` for whether the meaning is kept."""

_COLUMNS = {
    "llmbar": {"prompt": "prompt", "response": "response_1", "response_2": "response_2"},
    "prd_vicuna80": {"prompt": "prompt", "response": "response_1", "response_2": "response_2"},
    "care_asset": {"prompt": "original", "response": "simplification", "aspect": "aspect"},
    "care_civilcomments": {"response": "text"},
    "dices350": {"prompt": "prompt", "response": "response"},
    "frank": {"response": "response"},
}


@dataclass(frozen=True)
class ProbedSet:
    """A set with its panel.

    Attributes
    ----------
    name : str
    records : list of ItemRecord
        In the order of the scores.
    scores : ScoreMatrix
        Of all programs that vary; of pairs, how far the first response is scored above the second.
    gold : (n,) array
        NaN where there is none.
    """

    name: str
    records: list[ItemRecord]
    scores: ScoreMatrix
    gold: Array

    def measure(self, estimate: Array, rows: NDArray[np.bool_] | None = None) -> float:
        """AUC where gold is binary, else tau-b, over the items with gold, or those of them that are given."""
        known = ~np.isnan(self.gold) if rows is None else rows & ~np.isnan(self.gold)
        order = auc if is_binary(self.gold[~np.isnan(self.gold)]) else tau
        return order(estimate[known], self.gold[known]) or 0.0

    def of_judges(self, judges: Sequence[str]) -> ProbedSet:
        """The same set with these judges."""
        return replace(self, scores=self.scores.select_judges(list(judges)))

    def probes(self, *, seed: int = 0, items: int = 60) -> ProbeResponses:
        """The responses to the declared kinds, of a sample of the items."""
        declared = DECLARED[self.name]
        sampled = [r for r in self.records if not declared.where or r.aspect == MEANING]
        plan = plan_of((*declared.dresses, *declared.spoils), items=items, seed=seed)
        probes = make(sampled, plan)
        row = {record.item_id: k for k, record in enumerate(self.records)}
        values = _scores([probe.record for probe in probes], self.scores.judges)
        sign = np.array([-1.0 if probe.kind == SWAP else 1.0 for probe in probes])  # a margin turns round
        originals = self.scores.values[[row[probe.of] for probe in probes]]
        return ProbeResponses(
            tuple(probe.of for probe in probes),
            tuple(probe.kind for probe in probes),
            {kind: effect == "spoils" for kind, effect in plan.kinds.items()},
            self.scores.judges,
            sign[:, None] * values - originals,
        )


DEMO_JUDGES = tuple(roster("demo").programs)


@cache
def probed_set(name: str) -> ProbedSet:
    """A set by its name in ``DECLARED``, scored by all programs that vary on it."""
    return _scored(name, _records(name))


def generated_set(name: str, seed: int) -> ProbedSet:
    """A generated corpus from another seed of its generator, scored by all programs that vary on it."""
    if name == "demo":
        return _scored(name, demo.generate(seed=seed))
    if name == "elements":
        return _scored(name, elements.generate(elements.ElementsConfig(seed=seed)))
    return _scored(name, procedures.generate(procedures.ProceduresConfig(seed=seed)))


def _scored(name: str, unsorted: Sequence[ItemRecord]) -> ProbedSet:
    records = sorted(unsorted, key=lambda record: record.item_id)
    values = _scores(records, names())
    present = ~np.isnan(values)
    varies = [j for j in range(values.shape[1]) if present[:, j].mean() >= 0.9 and np.ptp(values[present[:, j], j]) > 0]
    judges = tuple(names()[j] for j in varies)
    families = {judge: find(judge).family for judge in judges}
    scores = ScoreMatrix(values[:, varies], tuple(r.item_id for r in records), judges, families)
    gold = np.array([np.nan if r.gold is None else r.gold for r in records])
    return ProbedSet(name, records, scores, gold)


def _records(name: str) -> list[ItemRecord]:
    if name == "demo":
        return demo.generate()
    if name == "elements":
        return elements.generate(elements.ElementsConfig())
    if name == "procedures":
        return procedures.generate(procedures.ProceduresConfig())
    rows = pq.read_table(Path(os.environ["CARE_DATA_DIR"]) / name / "items.parquet").to_pylist()
    return [_record(name, row) for row in rows]


def _record(name: str, row: dict[str, object]) -> ItemRecord:
    texts = {field: None if row[column] is None else str(row[column]) for field, column in _COLUMNS[name].items()}
    item_id, gold = str(row["item_id"]), row["gold"]
    if name == "prd_vicuna80":  # a tie between people says nothing of order, as in ``tests.support.panels``
        gold = None if gold is None or gold == 0.5 else float(gold > 0.5)  # type: ignore[operator]
    unit = item_id.rpartition(":")[0] if name == "frank" else None  # summaries of one article
    return ItemRecord(item_id, gold=None if gold is None else float(gold), split_unit=unit, **texts)  # type: ignore[arg-type]


def _scores(records: Sequence[ItemRecord], programs: Sequence[str]) -> Array:
    """Score of each record by each program; of a pair the margin of its first response."""
    first = [judge_item(record) for record in records]
    second = [judge_item(replace(record, response=record.response_2)) for record in records]
    columns: list[Array] = []
    for program in programs:
        engine = ProgramJudgeEngine(program, None)
        values = _values(engine, first)
        columns.append(values if records[0].response_2 is None else values - _values(engine, second))
    return np.column_stack(columns)


def _values(engine: ProgramJudgeEngine, items: Sequence[object]) -> Array:
    return np.array([np.nan if s.score is None else s.score for s in engine.score(items)], dtype=np.float64)  # type: ignore[arg-type]
