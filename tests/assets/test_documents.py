"""Tests of documents that one stage writes and another stage reads: types, earlier releases, damaged files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assets.fit.details import CareDetails, StructuredDetails, read_details
from assets.fit.documents import FitDocument, SolutionRecord, StructureDocument
from assets.publication.documents import CheckResult, ReviewDocument
from assets.results.documents import FactorRecord, FactorsDocument, SystemRecord, SystemsDocument
from care_ops.config import FitConfig
from care_ops.errors import WarehouseError
from care_ops.fit import fit_panel
from care_ops.frozen import Frozen
from care_ops.records import Certificate, Comparison, Evaluation, Intervals
from care_ops.scores import ScoreMatrix
from warehouse.artifacts import FitFolder
from warehouse.documents import document_of, read_record
from warehouse.fits import FitStore, FitVersion
from warehouse.storage import DamagedError, write_document

CERTIFICATE = Certificate(2.0, 1.5, 0.25, 1e-6, 40, converged=False)

DOCUMENTS = [
    FitDocument((("care", "f1"), ("avg", "f2")), {"mv": "no cut"}, "e", "p", "s", "c"),
    StructureDocument({"tau": 1.5}, {}, SolutionRecord(0.5, 0.25, CERTIFICATE)),
    StructureDocument({}, {"structure": "too few judges"}, None),
    FactorsDocument(
        ("words",),
        ((0.5,), (None,)),
        (FactorRecord(0.9, 0.5, 3.0, 0.1),),
        {"leading": 0},
        {"j1": (0.3,), "j2": (None,)},
    ),
    FactorsDocument(),
    SystemsDocument(
        "care",
        "mean estimate",
        (SystemRecord("a", 3, 0.5),),
        (Comparison("a", "b", 0.5, 0.25, 0.75, 3, 0, 1.0),),
    ),
    SystemsDocument(),
    ReviewDocument("held back", "e", (CheckResult("drift", False, "moved", {"psi": 1.5}, blocks=True),)),
]


@pytest.fixture
def folder(tmp_path):
    return FitFolder(tmp_path, "one")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: type(document).__name__)
def test_documents_survive_a_round_trip(folder, document):
    folder.write(document)
    assert folder.read(type(document)) == document
    assert folder.find(type(document)) == document


def test_a_missing_key_of_a_document_gets_its_default(folder):
    write_document(folder.path / "systems.json", {})
    assert folder.read(SystemsDocument) == SystemsDocument()


def test_a_document_of_a_later_release_may_have_more_fields(folder):
    write_document(folder.path / "fit.json", {**document_of(DOCUMENTS[0]), "weather": "fair"})
    assert folder.read(FitDocument) == DOCUMENTS[0]


@pytest.mark.parametrize(
    ("change", "key"),
    [({"fit_version": 7}, "fit_version"), ({"fit_ids": [["care"]]}, "fit_ids"), ({"failures": None}, "failures")],
)
def test_a_document_of_another_type_is_quarantined(folder, change, key):
    write_document(folder.path / "fit.json", {**document_of(DOCUMENTS[0]), **change})
    with pytest.raises(DamagedError, match=rf"is damaged \({key}.*quarantined it as .*`care run` builds it again"):
        folder.read(FitDocument)
    assert folder.find(FitDocument) is None
    with pytest.raises(WarehouseError, match="does not exist; `care run` builds it"):
        folder.read(FitDocument)


ARRAY = np.array([0.1 + 0.2, np.nan])


@pytest.mark.parametrize(
    "record",
    [
        Evaluation(n=5, tau=0.5),
        Intervals(("a", "b"), ARRAY, ARRAY, np.array([[0.5, np.nan], [1.0, 2.0]]), resamples=60),
        Frozen(("a",), ARRAY, ARRAY, (ARRAY, np.array([1.0])), (ARRAY, np.array([2.0])), ARRAY, 0.25, 0.99),
    ],
    ids=lambda record: type(record).__name__,
)
def test_annotations_of_a_fit_survive_a_round_trip_exactly(tmp_path, record):
    store = FitStore(tmp_path)
    store.annotate("one", "f", record)
    again = store.find_annotation("one", "f", type(record))
    for column, value in vars(record).items():
        np.testing.assert_equal(getattr(again, column), value)
    assert store.has_annotation("one", "f", type(record))
    assert store.find_annotation("one", "other", Evaluation) is None


def test_a_record_with_rows_of_different_lengths_is_damaged(tmp_path):
    store = FitStore(tmp_path)
    store.annotate("one", "f", Intervals(("a",), ARRAY, ARRAY))
    path = store.folder("one") / "fit=f.intervals.json"
    document = {"judges": ["a"], "lo": [0.5, "?"], "hi": [1.0]}
    write_document(path, document)
    with pytest.raises(DamagedError, match=r"is damaged \(lo: .*rows of numbers and null"):
        read_record(path, Intervals)


def test_an_evaluation_from_before_a_metric_was_computed_lacks_that_metric(tmp_path):
    store = FitStore(tmp_path)
    path = store.folder("one") / "fit=f.evaluation.json"
    write_document(path, {"n": 5, "labels_used": 1, "auc": None, "tau": 0.5})
    evaluation = store.find_annotation("one", "f", Evaluation)
    assert evaluation == Evaluation(n=5, tau=0.5)
    assert evaluation.order == 0.5
    write_document(path, {"labels_used": 1})
    with pytest.raises(DamagedError, match=r"is damaged \(n: "):
        read_record(path, Evaluation)


def test_a_fit_version_of_another_form_is_quarantined(tmp_path):
    store = FitStore(tmp_path)
    version = {"fit_version": "e", "testset": "one", "fits": {"avg": "f"}, "made_at": "2026"}
    write_document(store.folder("one") / "fit_version=e.json", {**version, "inputs": {"slices": {"a": "x"}}})
    (kept,) = store.fit_versions("one")
    assert isinstance(kept, FitVersion)
    assert (kept.inputs.slices, kept.inputs.admitted, kept.inputs.duplicates) == ({"a": "x"}, set(), 0.0)
    write_document(store.folder("one") / "fit_version=e.json", {**version, "inputs": {"panel": [{"judge": "a"}]}})
    assert store.fit_versions("one") == []


def test_details_are_read_as_the_aggregators_write_them(rng):
    quality = rng.normal(size=80)
    values = quality[:, None] + rng.normal(scale=0.8, size=(80, 6))
    scores = ScoreMatrix(values, tuple(f"i{k:02}" for k in range(80)), tuple("abcdef"), {})
    aggregates = fit_panel(scores, FitConfig(aggregators=("care", "care_svd", "avg"))).aggregates
    written = aggregates["care"].details
    care = read_details(aggregates["care"], CareDetails)
    assert (care.agreement, care.second_factor) == (written["agreement"], written["second_factor"])
    assert list(care.items_to_label) == written["items_to_label"]
    assert bool(care.concerns) is written["ambiguous"]
    certificate = read_details(aggregates["care_svd"], StructuredDetails).certificate
    assert certificate is not None
    assert certificate.converged
    assert read_details(aggregates["avg"], StructuredDetails).certificate is None
    with pytest.raises(WarehouseError, match="the details of aggregate care are not in this release's format"):
        read_details(replace(aggregates["care"], details={"agreement": "high"}), CareDetails)
    assert np.isfinite(care.agreement)
