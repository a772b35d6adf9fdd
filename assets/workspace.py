"""Workspace: the folders, specifications and settings that all assets use."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Interval

from assets.hashing import FileHashes, content_hash
from assets.mount import UNMOUNTED, Mount
from assets.workers import DaskConfig, Workers
from care_ops.config import NOTHING_ELSE, POSITION, AdmissionRule, Calibration, FitConfig
from care_ops.errors import CareError, InputError, listed, sentence
from care_ops.fit_labels import NO_LABELS, FitLabels
from judges.pool import PoolConfig
from judges.prompts import find
from judges.ray_cluster import RayConfig
from judges.spec import JudgeSpec, LanguageModel
from warehouse.testsets import TestsetSpec, resolve

if TYPE_CHECKING:
    from warehouse.artifacts import FitFolder
    from warehouse.bills import Bills
    from warehouse.database import Warehouse
    from warehouse.fits import FitStore
    from warehouse.parts import PartStore
    from warehouse.remote.copy import StoreCopy
    from warehouse.sources.files import RecordedTable
    from warehouse.sources.reading import Reading

FORGOTTEN = "forgotten.jsonl"
"""File in the data folder with hashes of the items that ``care admin forget`` removed."""


def forgotten_key(testset: str, item_id: str) -> str:
    """Return the hash that identifies an item removed by ``care admin forget``."""
    return content_hash([testset, item_id])


@dataclass(frozen=True)
class Memory:
    """Cache of values that have been read or computed since the workspace was loaded."""

    readings: dict[str, dict[str, Reading]] = field(default_factory=dict[str, "dict[str, Reading]"])
    recorded_scores: dict[str, RecordedTable] = field(default_factory=dict[str, "RecordedTable"])
    recorded_versions: dict[str, dict[str, list[str]]] = field(default_factory=dict[str, "dict[str, list[str]]"])
    labels: dict[str, FitLabels] = field(default_factory=dict[str, FitLabels])
    judge_keys: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])


@dataclass(frozen=True)
class ReviewConfig:
    """Limits on the differences between a new fit and the published fit; the review blocks fits beyond a limit.

    Attributes
    ----------
    hold : bool
        Whether a failed check blocks the fit; otherwise it only warns.
    max_psi : float
        Highest permitted excess of the recommended aggregate's population stability index over its chance level.
    min_rank_correlation : float
        Lowest permitted Spearman correlation between the recommended aggregate's estimates in the two fits.
    declared : tuple of str
        Judges that are people, or whose scores equal the gold label by design; the check `gold_leakage` ignores them.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    hold: bool = True
    max_psi: Annotated[float, Ge(0)] = 0.25
    min_rank_correlation: Annotated[float, Interval(ge=-1, le=1)] = 0.70
    declared: tuple[str, ...] = ()


@dataclass(frozen=True)
class CanaryConfig:
    """Settings of the daily retests of models behind an API.

    Attributes
    ----------
    items : int
        Number of scored items that each judge behind an API scores again every day; 0 disables retests.
    """

    __pydantic_config__: ClassVar = NOTHING_ELSE

    items: Annotated[int, Ge(0)] = 12


@dataclass(frozen=True)
class Workspace:
    """Judges, test sets and settings of one team.

    Attributes
    ----------
    root : Path
        Folder of care.yaml; relative paths start here.
    data : Path
        Folder of the parts, warehouse, fits and reports.
    store : str, optional
        URL of a remote store of parts, fits and reports; ``data`` is then its local copy.
    testsets, judges : mapping name -> specification
        Specifications by name, including the judges of recorded score files.
    experiments : {"small", "full"}
        Size at which the paper's experiments are run.
    mount : Mount
        Names of the workspace's assets in Dagster.
    labels : mapping name -> str
        Files of the labels that fits may use, by test set.
    memory : Memory
        Cached values; not copied by ``dataclasses.replace``.
    """

    root: Path
    data: Path
    testsets: Mapping[str, TestsetSpec]
    judges: Mapping[str, JudgeSpec]
    admission: AdmissionRule
    fit: FitConfig
    pool: PoolConfig
    review: ReviewConfig
    canary: CanaryConfig
    ray: RayConfig
    dask: DaskConfig
    experiments: str
    store: str | None = None
    mount: Mount = UNMOUNTED
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)

    @property
    def copy(self) -> StoreCopy | None:
        """Local copy of the workspace's remote store; None if there is no remote store."""
        if self.store is None:
            return None
        from warehouse.remote.copy import copy_of

        return copy_of(self.data, self.store)

    @property
    def option(self) -> str:
        """Option ``--workspace FOLDER`` for commands in messages; empty for a workspace with a remote store."""
        return "" if self.store is not None else f" --workspace {shlex.quote(str(self.root))}"

    @cached_property
    def parts(self) -> PartStore:
        """Store of items and scores in Parquet parts."""
        from warehouse.parts import PartStore

        return PartStore(self.data / "parts")

    @cached_property
    def workers(self) -> Workers:
        """Dask workers of this run."""
        return Workers(self.dask)

    @cached_property
    def bills(self) -> Bills:
        """Store of the judges' cost records."""
        from warehouse.bills import Bills

        return Bills(self.data / "parts" / "bills")

    @cached_property
    def fits(self) -> FitStore:
        """Store of the fits and publications."""
        from warehouse.fits import FitStore

        return FitStore(self.data / "parts" / "fits")

    @cached_property
    def file_hashes(self) -> FileHashes:
        """Cache of hashes of source and score files, to detect changes without reading every file."""
        return FileHashes(self.data / "hashes.json")

    @cached_property
    def warehouse(self) -> Warehouse:
        """Database that is built from the parts."""
        from warehouse.database import Warehouse

        return Warehouse(self.data / "care.duckdb")

    @property
    def report_folder(self) -> Path:
        """Folder of the report pages."""
        return self.data / "report"

    def experiment_file(self, key: str) -> Path:
        """Return the file of an experiment's findings."""
        return self.data / "experiments" / f"{key}.json"

    def fit_folder(self, testset: str) -> FitFolder:
        """Return the folder of a test set's fit."""
        from warehouse.artifacts import FitFolder

        return FitFolder(self.data / "fits", testset)

    def testset(self, name: str) -> TestsetSpec:
        """Return a test set by name; raise ``InputError`` if there is none."""
        if name not in self.testsets:
            raise InputError(f"no test set {name!r} in {self.root}; available: {', '.join(self.testsets) or 'none'}")
        return self.testsets[name]

    def judge(self, name: str) -> JudgeSpec:
        """Return a judge by name; raise ``InputError`` if there is none."""
        if name not in self.judges:
            raise InputError(f"no judge {name!r} in {self.root}; available: {', '.join(self.judges) or 'none'}")
        return self.judges[name]

    def testsets_of(self, judge: str) -> list[str]:
        """List the test sets that a judge scores, sorted."""
        return sorted(t for t in self.testsets if self.judge(judge).scores(t))

    def judges_of(self, testset: str) -> list[str]:
        """List the judges that score a test set, sorted."""
        return sorted(j for j, spec in self.judges.items() if spec.scores(testset))

    def admission_of(self, testset: str) -> AdmissionRule:
        """Return a test set's admission rule; missing scores default to failures if CARE runs any of its judges."""
        asked = any(not self.judge(judge).engine.needs.recordings for judge in self.judges_of(testset))
        return replace(self.admission, absent="failed") if asked and self.admission.absent == "auto" else self.admission

    def contradiction(self, testset: str) -> str | None:
        """Return a message about a contradiction in a test set's file; None if there is none."""
        declared = self.testset(testset).recorded
        known = [self.judge(judge).engine.recorded_as or judge for judge in self.judges_of(testset)]
        unknown = [] if declared is None else [j for j in declared.families if j not in known and declared.accepts(j)]
        if not unknown:
            return self.two_directions(testset)
        return f"`families` of {testset!r} names {unknown[0]!r}, but the judges are {listed(known)}; correct the name"

    def two_directions(self, testset: str) -> str | None:
        """Return a message if recorded scores of pairs and a template's scores have opposite directions; else None."""
        asked = self._prompt_of_pairs(testset) if self.testset(testset).recorded is not None else None
        return asked and (
            f"test set {testset!r} mixes two directions: a high recorded score means that the left answer is better, "
            f"but a high score by the template {asked!r} means that the right answer is better; remove the template, "
            "or move the recorded scores to a test set of their own"
        )

    def _prompt_of_pairs(self, testset: str) -> str | None:
        engines = [self.judge(judge).engine for judge in self.judges_of(testset)]
        own = [engine.template for engine in engines if isinstance(engine, LanguageModel)]
        for name in filter(None, (self.testset(testset).prompt, *own)):
            with suppress(InputError):  # a judge without its template fails later
                if find(name, self.root / "prompts").pairwise:
                    return name
        return None

    def fit_config(self, testset: str) -> FitConfig:
        """Return the fit settings with the test set's own ``cut``, ``scale`` and ``calibration``."""
        spec = self.testset(testset)
        calibration = Calibration(**spec.calibration.model_dump())
        not_quality = (*spec.not_quality, POSITION) if spec.shuffled else spec.not_quality
        return replace(self.fit, cut=spec.cut, scale=spec.scale, calibration=calibration, not_quality=not_quality)

    def higher_is_right(self, testset: str) -> bool:
        """Return whether a higher score of a pair means that ``response_2`` is better, as in templates for pairs."""
        return self.testset(testset).recorded is None and self._prompt_of_pairs(testset) is not None

    def systems_of(self, testset: str, columns: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the column that names items' systems, or two columns for pairs (a high score favours the first).

        ``columns`` (left, right) has precedence over the test set's file. Raises ``InputError`` if a high recorded
        score favours one side of a pair, but a high score from a judge's template favours the other side.
        """
        named = columns or self.testset(testset).systems
        if len(named) == 2 and (wrong := self.two_directions(testset)):
            raise InputError(wrong)
        return named[::-1] if self.higher_is_right(testset) else named

    def forgotten_items(self) -> set[str]:
        """Read the hashes (``forgotten_key``) of the items that CARE must never read again."""
        from warehouse.storage import DamagedError, read_lines

        try:
            return {line["item"] for line in read_lines(self.data / FORGOTTEN)}
        except FileNotFoundError:
            return set()
        except DamagedError as error:
            raise DamagedError(
                f"{error}. CARE reads no items without its list of removed items: restore the file from a backup, or "
                "move it away and run `care admin forget` again for each removed item"
            ) from None

    def labels_file(self, testset: str) -> Path | None:
        """Return the file of the labels for a test set's fit; None if care.yaml names none."""
        return resolve(self.labels[testset], self.root) if testset in self.labels else None

    def labels_of(self, testset: str) -> FitLabels:
        """Read and cache the labels for a test set's fit; raise ``InputError`` if the file of labels cannot be read."""
        if testset not in self.memory.labels and (file := self.labels_file(testset)) is not None:
            from assets.labels import read_labels

            labels, forgotten = read_labels(file), self.forgotten_items()
            given = tuple(x for x in labels.given if forgotten_key(testset, x.item_id) not in forgotten)
            self.memory.labels[testset] = FitLabels.of(replace(labels, given=given))
        return self.memory.labels.get(testset, NO_LABELS)

    def unread_labels(self, testset: str) -> str:
        """Return the reason why a test set's labels cannot be read; empty if the labels can be read."""
        try:
            self.labels_of(testset)
        except CareError as error:
            return str(error)
        return ""

    def labels_of_nobody(self) -> str:
        """Return a message if ``labels`` in care.yaml names an unknown test set; otherwise an empty string."""
        strange = next((name for name in self.labels if name not in self.testsets), None)
        message = f"{self.root}/care.yaml: labels: there is no test set {strange!r}; use the name of a test set's file"
        return "" if strange is None else sentence(message)
