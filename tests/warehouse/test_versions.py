"""Tests of versions of a test set's items: changed parts, unchanged parts, and refused changes."""

import pytest
from pydantic import ValidationError

from care_ops.errors import InputError
from warehouse.items import ItemRecord
from warehouse.testsets import TestsetSpec, VersionColumns
from warehouse.versions import ORIGINAL, TRANSFORMATIONS, TRIGGERS, versions_of

TEXT = "Rome is the capital. It is old. It lies by the Tiber."


def item(name: str, **more) -> ItemRecord:
    return ItemRecord(name, **{"prompt": "Which?", "response": TEXT, "reference": "Rome", "gold": 7.0, **more})


def spec(**source) -> TestsetSpec:
    return TestsetSpec(name="dressed", source={"kind": "versions", "of": "one", **source})


def test_every_version_stays_with_what_it_was_built_from():
    records = [item("a"), item("b", split_unit="u", metadata={"style": 3})]
    made = versions_of(records, ["beauty", "colon"], wrong=0.0)
    by_id = {r.item_id: r for r in made}
    assert list(by_id) == ["a", "b", "a beauty", "b beauty", "a colon"], "a trigger stands once for a prompt"
    assert by_id["a"].response == TEXT
    assert by_id["a beauty"].response == TRANSFORMATIONS["beauty"](TEXT)
    assert (by_id["b beauty"].gold, by_id["b beauty"].split_unit) == (7.0, "u")
    assert (by_id["a beauty"].split_unit, by_id["a"].split_unit) == ("a", "a"), "no fit parts a version from its pair"
    assert (by_id["a colon"].response, by_id["a colon"].gold) == (":", 0.0)
    columns = VersionColumns()
    assert {i: columns.version_of(r.metadata) for i, r in by_id.items()} == {
        "a": ("a", ORIGINAL),
        "b": ("b", ORIGINAL),
        "a beauty": ("a", "beauty"),
        "b beauty": ("b", "beauty"),
        "a colon": ("a", "colon"),
    }
    assert by_id["b beauty"].metadata["style"] == 3


def test_transformations_keep_the_words():
    for name, transform in TRANSFORMATIONS.items():
        changed = transform(TEXT).split()
        stripped = [word for word in (word.strip("*✨🌟-") for word in changed) if word]
        assert stripped[: len(TEXT.split())] == TEXT.split(), name
    assert len(TRANSFORMATIONS["verbosity"](TEXT).split()) >= 2 * len(TEXT.split())
    assert "[1]." in TRANSFORMATIONS["authority"](TEXT)
    assert TRANSFORMATIONS["beauty"]("") is not None
    assert set(TRIGGERS.values()) == {":", ",", " ", "Solution", "Thought process:", TRIGGERS["step by step"]}


def test_versions_are_identified_by_columns_of_a_file():
    columns = VersionColumns(pair="pair_id", version="variant", changed="perturbed", change="kind")
    assert columns.version_of({"pair_id": 3, "variant": "original", "kind": "beauty"}) == ("3", ORIGINAL)
    assert columns.version_of({"pair_id": 3, "variant": "perturbed", "kind": "beauty"}) == ("3", "beauty")
    assert columns.version_of({"pair_id": 3, "variant": "other", "kind": "beauty"}) is None
    assert columns.version_of({"variant": "original"}) is None
    with pytest.raises(ValidationError, match="set both, or remove both"):
        VersionColumns(changed="perturbed")


def test_what_is_refused():
    with pytest.raises(ValidationError, match="unknown change 'glitter'; choose from beauty"):
        spec(changes=["glitter"])
    with pytest.raises(ValidationError, match="more than once"):
        spec(changes=["beauty", "beauty"])
    with pytest.raises(InputError, match="no item has a response"):
        versions_of([item("a", response=None)], ["beauty"], None)
    assert spec().version_columns == VersionColumns()
