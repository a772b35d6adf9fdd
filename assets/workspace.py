"""What the stages are given: folders, specifications and settings of one workspace.

Belongs here: the record, and what follows from it (keys, fingerprints). Does not: reading care.yaml
(``orchestration.workspace``), Dagster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Interval

from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.config import NOTHING_ELSE, AdmissionRule, Calibration, FitConfig
from care_ops.errors import CareError, InputError
from judges.engines.base import Context, Ledger, Recording
from judges.engines.factory import revision_of
from judges.items import Item
from judges.pool import PoolConfig
from judges.spec import JudgeSpec
from warehouse.items import ItemRecord, named_in
from warehouse.testsets import DemoSource, FilesSource, HuggingFaceSource, TestsetSpec, VersionsSource, resolve

if TYPE_CHECKING:
    from warehouse.artifacts import FitFolder
    from warehouse.attempts import Attempts
    from warehouse.database import Warehouse
    from warehouse.fits import FitStore
    from warehouse.parts import PartStore
    from warehouse.sources.files import RecordedTable


FORGOTTEN = "forgotten.jsonl"
"""Hashes of the items that `care forget` removed, in the data folder."""


def forgotten_key(testset: str, item_id: str) -> str:
    """By which a forgotten item is known."""
    return _digest([testset, item_id])


@dataclass(frozen=True)
class MomentsConfig:
    """Where moments are computed.

    Attributes
    ----------
    dask_workers : int
        Processes of a local Dask cluster; 0 stays in this process.
    dask_address : str, optional
        Address of a running Dask scheduler; wins over ``dask_workers``.
    threshold_rows : int
        Test sets with fewer items stay in this process: a cluster costs more than it saves.
    rows_per_shard : int
        Items that a Dask task reads at once.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    dask_workers: Annotated[int, Ge(0)] = 0
    dask_address: str | None = None
    threshold_rows: Annotated[int, Ge(0)] = 5_000_000
    rows_per_shard: Annotated[int, Ge(1)] = 524_288


@dataclass(frozen=True)
class ReviewConfig:
    """When a night is held back from publication, against what was published before.

    Attributes
    ----------
    hold : bool
        Whether a failed check holds back; otherwise it is only told.
    max_missing : float
        Share of the admitted panel's scores that may be missing.
    max_missing_rise : float
        By how much that share may rise from one published fit to the next.
    max_psi : float
        Largest population stability index of the recommended aggregate, beyond what chance gives.
    max_mean_shift : float
        How far its mean may move, in standard deviations.
    min_rank_correlation : float
        Least rank correlation (Spearman) of its estimates, over the items of both nights.
    min_quality : float
        Least cosine between the quality factor's loadings of both nights.
    max_duplicates_rise : float
        By how much the share of items may rise that repeat another's texts without sharing its split unit.
    declared : tuple of str
        Judges that are people, or the gold label, on purpose: their agreement with gold is no leak.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    hold: bool = True
    max_missing: Annotated[float, Interval(ge=0, le=1)] = 0.20
    max_missing_rise: Annotated[float, Interval(ge=0, le=1)] = 0.05
    max_psi: Annotated[float, Ge(0)] = 0.25
    max_mean_shift: Annotated[float, Ge(0)] = 0.5
    min_rank_correlation: Annotated[float, Interval(ge=-1, le=1)] = 0.70
    min_quality: Annotated[float, Interval(ge=-1, le=1)] = 0.70
    max_duplicates_rise: Annotated[float, Interval(ge=0, le=1)] = 0.01
    declared: tuple[str, ...] = ()


@dataclass(frozen=True)
class CanaryConfig:
    """Whether a model behind an API is still the same.

    Attributes
    ----------
    items : int
        Scored items about which each judge behind an API is asked again every night; 0 asks none.
    tolerance : float
        Mean absolute change of their scores that is let pass, as a share of the scale.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    items: Annotated[int, Ge(0)] = 12
    tolerance: Annotated[float, Interval(gt=0, le=1)] = 0.1


@dataclass(frozen=True)
class Workspace:
    """One team's judges, test sets and settings.

    Attributes
    ----------
    root : Path
        Folder of care.yaml; relative paths start here.
    data : Path
        Parts, warehouse, fits and reports.
    testsets, judges : mapping name -> specification
        Judges that come with a recorded score file are among them.
    admission, fit, pool, moments, review, canary : settings
    experiments : {"small", "full"}
        Size at which the paper's experiments are run.
    experiment_sizes : mapping experiment -> parameter -> value
        What single parameters are instead.
    anchors : mapping testset -> Anchors
    """

    root: Path
    data: Path
    testsets: Mapping[str, TestsetSpec]
    judges: Mapping[str, JudgeSpec]
    admission: AdmissionRule
    fit: FitConfig
    pool: PoolConfig
    moments: MomentsConfig
    review: ReviewConfig
    canary: CanaryConfig
    experiments: str
    experiment_sizes: Mapping[str, Mapping[str, int | Sequence[float]]]
    anchors: Mapping[str, Anchors] = field(default_factory=dict[str, Anchors])

    @cached_property
    def parts(self) -> PartStore:
        """The parts."""
        from warehouse.parts import PartStore

        return PartStore(self.data / "parts")

    def attempts(self, judge: str, testset: str, key: str) -> Attempts:
        """How often a judge was asked in vain about the items of a test set."""
        from warehouse.attempts import Attempts

        return Attempts(self.parts.scores_folder(judge, testset), key)

    @cached_property
    def fits(self) -> FitStore:
        """Every fit that is kept, and what is published."""
        from warehouse.fits import FitStore

        return FitStore(self.data / "parts" / "fits")

    @cached_property
    def warehouse(self) -> Warehouse:
        """The database over the parts."""
        from warehouse.database import Warehouse

        return Warehouse(self.data / "care.duckdb")

    @property
    def report_folder(self) -> Path:
        """Where the pages lie."""
        return self.data / "report"

    def fit_folder(self, testset: str) -> FitFolder:
        """Intermediate files of a test set's fit."""
        from warehouse.artifacts import FitFolder

        return FitFolder(self.data / "fits", testset)

    def testset(self, name: str) -> TestsetSpec:
        """A test set by name; ``InputError`` if it is gone."""
        if name not in self.testsets:
            raise InputError(f"no test set {name!r} in {self.root}; there are {', '.join(self.testsets) or 'none'}")
        return self.testsets[name]

    def judge(self, name: str) -> JudgeSpec:
        """A judge by name; ``InputError`` if it is gone."""
        if name not in self.judges:
            raise InputError(f"no judge {name!r} in {self.root}; there are {', '.join(self.judges) or 'none'}")
        return self.judges[name]

    def testsets_of(self, judge: str) -> list[str]:
        """Test sets that a judge scores, sorted."""
        return sorted(t for t in self.testsets if self.judge(judge).scores(t))

    def judges_of(self, testset: str) -> list[str]:
        """Judges that score a test set, sorted."""
        return sorted(j for j, spec in self.judges.items() if spec.scores(testset))

    def fit_config(self, testset: str) -> FitConfig:
        """The fit settings with the test set's own cut, scale and calibration."""
        spec = self.testset(testset)
        calibration = Calibration(**spec.calibration.model_dump())
        return replace(self.fit, cut=spec.cut, scale=spec.scale, calibration=calibration)

    def anchors_of(self, testset: str) -> Anchors:
        """Labels that a fit of this test set may see."""
        return self.anchors.get(testset, NO_ANCHORS)

    def read_source(self, testset: str) -> list[ItemRecord]:
        """Items of a test set, read anew from its source, without those that were forgotten."""
        forgotten = self.forgotten()
        records = self._read_source(testset)
        named_in([r.metadata for r in records], self.testset(testset).further_columns, f"test set {testset!r}")
        if not forgotten:
            return records
        return [r for r in records if forgotten_key(testset, r.item_id) not in forgotten]

    def forgotten(self) -> set[str]:
        """Keys (``forgotten_key``) of the items that must never be read again."""
        from warehouse.storage import DamagedError, read_lines

        try:
            return {line["item"] for line in read_lines(self.data / FORGOTTEN)}
        except FileNotFoundError:
            return set()
        except DamagedError as error:
            raise DamagedError(
                f"{error}. It lists what must never be read again, so nothing is read before it is whole: put it back "
                "from a backup, or move it away and `care forget` each of those items again"
            ) from None

    def _read_source(self, testset: str) -> list[ItemRecord]:
        from warehouse.sources import demo, files

        source = self.testset(testset).source
        if isinstance(source, VersionsSource):
            return self._read_versions(testset, source)
        if isinstance(source, DemoSource):
            return demo.generate(demo.DemoConfig(source.countries, source.answers, source.seed))
        if isinstance(source, HuggingFaceSource):
            from warehouse.sources import huggingface

            return huggingface.read_items(source, self.root)
        path = resolve(source.items, self.root)
        return files.read_items(path, source.columns, source.where, source.drop)

    def _read_versions(self, testset: str, source: VersionsSource) -> list[ItemRecord]:
        from warehouse.versions import versions_of

        records, scale = self.read_source(source.of), self.testset(testset).scale
        two_classes = {r.gold for r in records} <= {0.0, 1.0, None}
        return versions_of(records, source.changes, 0.0 if two_classes else scale[0] if scale else None)

    def engine_context(self, judge: str, testset: str, ledger: Ledger | None = None) -> Context:
        """What a judge's engine needs beside its specification."""
        return Context(self.root, self.recordings(judge, testset), ledger)

    def recordings(self, judge: str, testset: str) -> Mapping[str, Recording] | None:
        """Recorded scores of one judge, or None where it records none."""
        from warehouse.sources import files

        name = self.judge(judge).engine.recorded_as
        if name is None:
            return None
        table = self._recorded_tables.get(testset)
        if table is None:
            source = self.testset(testset).source
            if not isinstance(source, FilesSource) or source.scores is None:
                return None
            path = resolve(source.scores.path, self.root)
            table = files.read_scores(path, source.scores.columns, source.scores.layout)
            self._recorded_tables[testset] = table
        if name not in table.scores.judges:
            return {}
        values = table.scores.values[:, table.scores.judges.index(name)]
        texts = table.responses.get(name, {})
        return {
            item_id: Recording(None if value != value else value, texts.get(item_id))
            for item_id, value in zip(table.scores.item_ids, values.tolist(), strict=True)
        }

    @cached_property
    def _recorded_tables(self) -> dict[str, RecordedTable]:
        return {}

    def effective_spec(self, judge: str, testset: str) -> JudgeSpec:
        """The specification with the test set's scale and prompt where a judge declares none."""
        spec, declared = self.judge(judge), self.testset(testset)
        needs, engine = spec.engine.needs, spec.engine.with_template(declared.prompt)
        scale = declared.scale if spec.scale is None and (needs.recordings or needs.template) else spec.scale
        if engine is spec.engine and scale == spec.scale:
            return spec
        return spec.model_copy(update={"scale": scale, "engine": engine})

    def judge_key(self, judge: str, testset: str) -> str:
        """Content key of the judge's scores on a test set (law 5); hashed once, as the workspace was read once."""
        known = self._judge_keys.get((judge, testset))
        if known is None:
            spec = self.effective_spec(judge, testset)
            known = spec.key(revision_of(spec, self.engine_context(judge, testset)))
            self._judge_keys[judge, testset] = known
        return known

    @cached_property
    def _judge_keys(self) -> dict[tuple[str, str], str]:
        return {}

    def source_version(self, testset: str) -> str:
        """Hash of what the items are made of; of the reason, where the source cannot be read."""
        try:
            spec = self.testset(testset)
            found = spec.fingerprint(self.root)
            if isinstance(spec.source, VersionsSource):
                found = _digest([found, spec.scale, self.source_version(spec.source.of)])
        except CareError as error:  # one broken source must not hold up the others: `items` fails and says why
            return _digest(str(error))
        forgotten = self.forgotten()
        return _digest([found, sorted(forgotten)]) if forgotten else found

    def judge_version(self, judge: str) -> str:
        """Hash of what the judge's scores are made of, over its test sets; of the reason, where it is broken."""
        try:
            return _digest({t: self.judge_key(judge, t) for t in self.testsets_of(judge)})
        except CareError as error:  # likewise: `judge_inference` fails and says why
            return _digest(str(error))

    def panel_version(self, testset: str) -> str:
        """Hash of everything but scores that a test set's panel depends on: roster with families, admission rule."""
        roster = [(j, self.judge(j).family) for j in self.judges_of(testset)]
        return _digest({"roster": roster, "admission": asdict(self.admission)})

    def review_version(self, testset: str) -> str:
        """Hash of the limits of publication; the same for every test set."""
        return _digest({"testset": testset, "review": asdict(self.review)})

    def settings_version(self, testset: str) -> str:
        """Hash of everything but the panel that a test set's fit depends on: aggregators, penalties, anchors."""
        spec = self.testset(testset)
        return _digest(
            {
                "fit": self.fit_config(testset).fingerprint(),
                "scale": spec.scale,
                "description": spec.description,
                "anchors": sorted(self.anchors_of(testset).labels.items()),
            }
        )


def judge_item(record: ItemRecord) -> Item:
    """What a judge sees of an item: its texts, never its gold."""
    return Item(record.item_id, record.prompt, record.response, record.response_2, record.reference, record.aspect)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]
