"""Storage of fits, fit versions and publications in files; the database can be rebuilt from these files.

A fit version (``FitVersion``) consists of all fits that one run built for a test set, and their inputs. At most
one fit version of a test set is published. A damaged file is quarantined (see ``storage``) and then counts as missing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.records import Aggregate, Array, JudgeCheck
from warehouse.documents import FORMAT, read_record, record_of, renamed, stored, write_record
from warehouse.storage import (
    DamagedError,
    find_sound,
    folder_of,
    names_in,
    quarantine,
    read_lines,
    read_metadata,
    read_sound,
    read_table,
    readable_lines,
    write_lines,
    write_table,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R")

_IN_HEAD = ("fit_id", "testset", "inputs_fingerprint", "code_version", "judges", "fitted_at")
"""Names of the fields of ``FitRecord`` that the metadata of the fit's file contains unchanged."""

ITEMS_NAMED = "items_to_label"
"""Key of the only entry in an aggregate's ``details`` that contains item ids."""


def now() -> str:
    """Return the current time in UTC as an ISO 8601 string."""
    return datetime.now(UTC).isoformat()


def _not_before(moment: str, latest: str) -> str:
    """Return ``moment`` if it is later than ``latest``; otherwise return the time one microsecond after ``latest``."""
    if moment > latest:
        return moment
    return (datetime.fromisoformat(latest) + timedelta(microseconds=1)).isoformat()


@dataclass(frozen=True)
class FitRecord:
    """Stored fit of one aggregator to one test set.

    ``fit_id`` is a hash of test set, aggregator, inputs, configuration and code. The arrays of ``answer``, the
    estimate, are in the order of ``item_ids`` and ``judges``. ``fitted_at`` is the time of the fit (ISO 8601).
    """

    fit_id: str
    testset: str
    inputs_fingerprint: str
    code_version: str
    item_ids: tuple[str, ...]
    judges: tuple[str, ...]
    answer: Aggregate
    fitted_at: str = field(default_factory=now)

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each judge; empty if the aggregator has no weights."""
        weights = self.answer.weights
        return {} if weights is None else dict(zip(self.judges, weights.tolist(), strict=True))

    def in_order(self, item_ids: Sequence[str], judges: Sequence[str] | None = None) -> Aggregate:
        """Return the estimate in the order of ``item_ids`` and ``judges``; items and judges not in the fit get NaN."""
        items, columns = _places(self.item_ids, item_ids), _places(self.judges, judges or self.judges)
        reordered = self.answer.mapped(partial(_take_rows, places=items), partial(_take_rows, places=columns))
        return replace(reordered, sd=_if_any(reordered.sd), p_quality=_if_any(reordered.p_quality))


def _places(names: tuple[str, ...], wanted: Sequence[str]) -> NDArray[np.intp]:
    """Return the position in ``names`` of each name in ``wanted``, or -1 if ``names`` lacks the name."""
    if tuple(wanted) == names:
        return np.arange(len(names))
    place = {name: k for k, name in enumerate(names)}
    return np.array([place.get(name, -1) for name in wanted], dtype=np.intp)


def _take_rows(values: Array, places: NDArray[np.intp]) -> Array:
    rows = values[places] if len(values) else np.full((len(places), *values.shape[1:]), np.nan)
    return np.where((places < 0).reshape(-1, *[1] * (values.ndim - 1)), np.nan, rows)


def _if_any(values: Array | None) -> Array | None:
    return None if values is None or np.isnan(values).all() else values


@dataclass(frozen=True)
class FitVersionInputs:
    """Inputs of a fit version.

    Attributes
    ----------
    slices : dict judge -> content hash
        Content hash of the scores of each judge in the fit.
    panel : tuple of JudgeCheck
        Admission result of each judge of the test set, sorted by judge.
    duplicates : float
        Share of items with the same texts as an item of another split unit.
    settings, code : str
        Version of the fit's settings, and version of the fit's code.
    labels : dict item_id -> label
        Labels that the fit used.
    judges : dict judge -> key
        Key (content hash) of each judge, except judges with recorded scores.
    """

    slices: dict[str, str] = field(default_factory=dict[str, str])
    panel: tuple[JudgeCheck, ...] = ()
    duplicates: float = 0.0
    settings: str = ""
    code: str = ""
    labels: dict[str, float] = field(default_factory=dict[str, float])
    judges: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def admitted(self) -> set[str]:
        """Names of the judges that were admitted to the panel."""
        return {row.judge for row in self.panel if row.admitted}

    @property
    def missing_rate(self) -> float:
        """Share of missing scores, averaged over the admitted judges."""
        rates = [row.missing_rate for row in self.panel if row.admitted]
        return sum(rates) / len(rates) if rates else 0.0


@dataclass(frozen=True)
class FitVersion:
    """All fits that one run built for a test set, as fit ids by aggregator, with the inputs of the fits."""

    fit_version: str
    testset: str
    fits: dict[str, str]
    inputs: FitVersionInputs
    made_at: str = field(default_factory=now)


@dataclass(frozen=True)
class Publication:
    """Entry in the publication log; ``published_by`` is "review", "accept", "promote" or "rollback".

    While a publication is ``pinned``, CARE does not publish later fit versions automatically.
    """

    testset: str
    fit_version: str
    published_by: str
    why: str = ""
    pinned: bool = False
    published_at: str = field(default_factory=now)


class FitStore:
    """Store of the fits, annotations, fit versions and publication logs of all test sets."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, testset: str) -> Path:
        """Return the folder of a test set's fits."""
        return folder_of(self.root, "testset", testset)

    def fit_file(self, testset: str, fit_id: str) -> Path:
        """Return the path of a fit's Parquet file: one row per item, and all other fields as metadata."""
        return self.folder(testset) / f"fit={fit_id}.parquet"

    def testsets(self) -> list[str]:
        """Return the names of the test sets that have fits."""
        return names_in(self.root, "testset")

    def write_fit(self, fit: FitRecord) -> None:
        """Store a fit, and replace an existing file of the same fit."""
        answer, p = fit.answer, len(fit.judges)
        head = {
            "format": FORMAT,
            **{name: getattr(fit, name) for name in _IN_HEAD},
            "aggregator": answer.name,
            "labels_used": answer.labels_used,
            "threshold": answer.threshold,
            "details": json.dumps(answer.details),
            "weights": [None] * p if answer.weights is None else answer.weights.tolist(),
            "loadings": [None] * p if answer.loadings is None else answer.loadings.tolist(),
        }
        table = table_of(fit.item_ids, answer).replace_schema_metadata({"fit": json.dumps(head)})
        write_table(self.fit_file(fit.testset, fit.fit_id), table)

    def read_fit(self, testset: str, fit_id: str, *, with_items: bool = True) -> FitRecord:
        """Return a fit, optionally without its item values; raise ``WarehouseError`` if it is missing or damaged."""
        then = (
            ". `care run` rebuilds the fits of the latest fit version; restore other fits from a backup, or choose "
            f"a fit from `care fits list {testset}`"
        )
        missing = f"this fit does not exist; choose a fit from `care fits list {testset}`"
        return read_sound(self.fit_file(testset, fit_id), partial(fit_of, with_items=with_items), then, missing)

    def find_fit(self, testset: str, fit_id: str) -> FitRecord | None:
        """Return a fit by its id, or None if the fit is missing or damaged."""
        return find_sound(self.fit_file(testset, fit_id), fit_of)

    def annotate(self, testset: str, fit_id: str, record: DataclassInstance) -> None:
        """Store an annotation (a record about a fit or fit version); replace an annotation of the same class."""
        write_record(self._annotation_file(testset, fit_id, type(record)), record)

    def find_annotation(self, testset: str, fit_id: str, kind: type[R]) -> R | None:
        """Return a fit's annotation of the class ``kind``, or None if the annotation is missing or damaged."""
        return find_sound(self._annotation_file(testset, fit_id, kind), partial(read_record, kind=kind))

    def find_annotations(self, testset: str, fits: Mapping[str, str], kind: type[R]) -> dict[str, R]:
        """Return the annotations of the class ``kind``, by aggregator; ``fits`` maps aggregators to fit ids."""
        found = {name: self.find_annotation(testset, fit_id, kind) for name, fit_id in fits.items()}
        return {name: record for name, record in found.items() if record is not None}

    def has_annotation(self, testset: str, fit_id: str, kind: type[object]) -> bool:
        """Return whether a fit has an annotation of the class ``kind``."""
        return self._annotation_file(testset, fit_id, kind).is_file()

    def _annotation_file(self, testset: str, fit_id: str, kind: type[object]) -> Path:
        return self.folder(testset) / f"fit={fit_id}.{kind.__name__.lower()}.json"

    def has_fit_version(self, testset: str, fit_version: str, fit_ids: Collection[str]) -> bool:
        """Return whether a fit version can be read and the files of all its fits exist."""
        fits = all(self.fit_file(testset, fit_id).is_file() for fit_id in fit_ids)
        return fits and self.find_fit_version(testset, fit_version) is not None

    def version_file(self, testset: str, fit_version: str) -> Path:
        """Return the path of a fit version's file; in format 1 the file name began with ``edition``."""
        old, new = (self.folder(testset) / f"{name}={fit_version}.json" for name in ("edition", "fit_version"))
        return old if old.is_file() else new

    def write_fit_version(self, version: FitVersion) -> FitVersion:
        """Store a fit version, and return the stored record; an existing fit version keeps its build time."""
        others = self.fit_versions(version.testset)
        known = next((kept for kept in others if kept.fit_version == version.fit_version), None)
        if known is not None:
            version = replace(version, made_at=known.made_at)
        elif others:
            version = replace(version, made_at=_not_before(version.made_at, others[-1].made_at))
        if version != known:
            write_record(self.version_file(version.testset, version.fit_version), version)
        return version

    def fit_versions(self, testset: str) -> list[FitVersion]:
        """Return all readable fit versions of a test set, oldest first."""
        files = chain(*(self.folder(testset).glob(f"{name}=*.json") for name in ("edition", "fit_version")))
        versions = [find_sound(path, partial(read_record, kind=FitVersion)) for path in files]
        return sorted((e for e in versions if e is not None), key=lambda e: (e.made_at, e.fit_version))

    def find_fit_version(self, testset: str, fit_version: str) -> FitVersion | None:
        """Return a fit version by its id, or None if the version is missing or damaged."""
        return find_sound(self.version_file(testset, fit_version), partial(read_record, kind=FitVersion))

    def leave_out(self, testset: str, items: Collection[str]) -> None:
        """Remove items from the stored labels and from the lists of items to label, but keep the items in the fits."""
        for version in self.fit_versions(testset):
            labels = version.inputs.labels
            if labels.keys() & set(items):
                kept = {item: label for item, label in labels.items() if item not in items}
                without = replace(version, inputs=replace(version.inputs, labels=kept))
                write_record(self.version_file(testset, version.fit_version), without)
        for path in sorted(self.folder(testset).glob("fit=*.parquet")):
            fit = find_sound(path, fit_of)
            named = () if fit is None else fit.answer.details.get(ITEMS_NAMED) or ()
            if fit is not None and set(named) & set(items):
                left = [item for item in named if item not in items]
                answer = replace(fit.answer, details={**fit.answer.details, ITEMS_NAMED: left})
                self.write_fit(replace(fit, answer=answer))

    def publish(self, publication: Publication) -> None:
        """Append an entry to the publication log of a test set."""
        log = self.publications(publication.testset)
        if log:
            publication = replace(publication, published_at=_not_before(publication.published_at, log[-1].published_at))
        write_lines(self._log_file(publication.testset), [stored(entry) for entry in (*log, publication)])

    def _log_file(self, testset: str) -> Path:
        return self.folder(testset) / "publications.jsonl"

    def publications(self, testset: str) -> list[Publication]:
        """Read the publication log, oldest entry first; quarantine a damaged log, but keep its readable lines."""
        path = self._log_file(testset)
        try:
            lines = read_lines(path)
        except FileNotFoundError:
            return []
        except DamagedError as error:
            lines = readable_lines(path)
            quarantine(path, str(error))
            if lines:
                write_lines(path, lines)
        return [record_of(Publication, line) for line in lines]

    def published(self, testset: str) -> tuple[Publication, FitVersion] | None:
        """Return the current publication and its fit version, or None if no readable fit version is published."""
        log = self.publications(testset)
        version = self.find_fit_version(testset, log[-1].fit_version) if log else None
        return None if version is None else (log[-1], version)


def table_of(item_ids: Sequence[str], answer: Aggregate) -> pa.Table:
    """Convert an estimate to a table with one row for each item; missing values are null."""
    columns = {name: nullable(getattr(answer, name), len(item_ids)) for name in ("estimate", "sd", "p_quality")}
    return pa.table({"item_id": pa.array(item_ids, pa.string()), **columns})


def nullable(values: Array | None, length: int = 0) -> pa.Array:
    """Convert values to an Arrow column with null for NaN; return ``length`` nulls if ``values`` is None."""
    if values is None:
        return pa.nulls(length, pa.float64())
    return pa.array(values, pa.float64(), from_pandas=True)


def fit_of(path: Path, *, with_items: bool = True) -> FitRecord:
    """Read a fit from its Parquet file; raise the same errors as ``storage.read_table``."""
    if with_items:
        table = read_table(path)
    else:
        table = table_of((), Aggregate("", np.zeros(0))).replace_schema_metadata(read_metadata(path)[1])
    stored_head = json.loads((table.schema.metadata or {})[b"fit"])
    head = renamed("FitRecord", stored_head | {"details": json.loads(stored_head["details"])})
    estimate, sd, p_quality = (
        table.column(name).to_numpy(zero_copy_only=False).astype(np.float64) for name in ("estimate", "sd", "p_quality")
    )
    weights, loadings = (
        None if None in head[name] else np.array(head[name], dtype=np.float64) for name in ("weights", "loadings")
    )
    answer = Aggregate(
        head["aggregator"],
        estimate,
        head["threshold"],
        _if_any(sd),
        _if_any(p_quality),
        weights,
        loadings,
        labels_used=head["labels_used"],
        details=head["details"],
    )
    kept: dict[str, Any] = {name: head[name] for name in _IN_HEAD} | {"judges": tuple(head["judges"])}
    return FitRecord(**kept, item_ids=tuple(table.column("item_id").to_pylist()), answer=answer)
