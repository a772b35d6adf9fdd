"""Tests of care.yaml: each setting is declared once, and file and documentation follow from it."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import yaml

from care_ops.errors import InputError
from judges.settings_files import read_model
from judges.spec import JudgeSpec
from orchestration.template import template
from orchestration.workspace import DECLARED_BY_TEST_SETS, Settings, read_settings
from warehouse.testsets import TestsetSpec

MOST_FIELDS = {"care": 48, "judge": 47, "testset": 86}
"""Largest permitted number of fields in each kind of file, including groups."""

ROOT = Path(__file__).parents[2]
PACKAGES = ("care_ops", "judges", "warehouse", "assets", "orchestration")


def read(folder, text):
    (folder / "care.yaml").write_text(text)
    return read_settings(folder)


def test_the_template_has_every_setting_with_its_default(tmp_path):
    assert read(tmp_path, template()) == Settings() == read(tmp_path, "{}")
    shown = template().replace("# nightly", "nightly").replace("#   ", "  ")
    nightly = yaml.safe_load(shown)["nightly"]
    assert read(tmp_path, yaml.safe_dump({"nightly": nightly})).nightly is not None
    for name, value in Settings():
        assert re.search(rf"^(# )?{name}:", template(), re.MULTILINE), name
        for entry in fields(value) if is_dataclass(value) else ():
            if entry.name not in (*DECLARED_BY_TEST_SETS, "structure"):
                assert re.search(rf"^  {entry.name}:", template(), re.MULTILINE), entry.name
                assert f"\n  {entry.name}:" in template()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fit: {resamples: 3}", "resamples is 3; give 0"),
        ("fit: {cut: 3}", "cut does not belong here; declare it in a test set"),
        ("fit: {structure: {gamma: 1}}", "structure does not belong here; write its settings into `fit` itself"),
        ("panel: {min_gain: 0.1}", "panel.min_gain: not a setting here; delete it"),
        ("fit: {not_quality: [words]}", "not_quality does not belong here; declare it in a test set"),
        ("fit: {aggregators: [averege]}", "no aggregator 'averege'; choose from care"),
        ('nightly: {at: "25:00"}', "nightly.at: '25:00' is not a time of day; give hours and minutes, such as 02:00"),
        *(
            (text, "URL; give a local path, or the path of a mounted folder")
            for text in (
                "alerts: {file: s3://bucket/alerts.jsonl}",
                "labels: {one: https://host/labels.csv}",
            )
        ),
        ("alerts: {webhook: 'ftp://x'}", "https URL"),
        ("alerts: {heartbeat: 'ftp://x'}", "heartbeat must be an https URL"),
        ("alerts: {webhook: '${NOT_SET_ANYWHERE}'}", "NOT_SET_ANYWHERE is not set"),
        ("nightly: {zone: Mars/Olympus}", "no time zone"),
        ("nightly: {days: 1-5}", "days: not a setting here"),
        ("ray: {adress: auto}", "ray.adress: not a setting here; delete it"),
        ("gamma: 1", "gamma: not a setting here; write it under fit"),
        ("fit: {absent: failed}", "fit.absent: not a setting here; write it under panel"),
        (
            "data: abfs://container/care",
            "the scheme of this URL is unknown; give a local path, or a URL with one of the schemes s3://",
        ),
        ("data: s3://key:secret@bucket/care", "credentials in environment variables"),
    ],
)
def test_a_wrong_setting_is_named_as_in_the_file(tmp_path, text, sentence):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("source", "place"),
    [("{kind: files, items: a.csv, scores: {path: b.csv}}", "source.scores"), ("{kind: import, tool: x}", "source")],
)
def test_a_misplaced_setting_is_reported_with_its_correct_place(tmp_path, source, place):
    path = tmp_path / "one.yaml"
    path.write_text(f"families: {{a: one}}\nsource: {source}\n")
    with pytest.raises(InputError, match=rf"one.yaml: .*families: not a setting here; write it under {place}(;|$)"):
        read_model(path, TestsetSpec)


def fields_of(document):
    """Return the paths of all fields in a JSON schema."""
    found = set()

    def walk(part, path):
        part = document["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        for kind in ("anyOf", "oneOf", "allOf"):
            for each in part.get(kind, ()):
                walk(each, path)
        for name, inner in part.get("properties", {}).items():
            found.add((*path, name))
            walk(inner, (*path, name))
        for inner in (part.get("additionalProperties"), part.get("items")):
            if isinstance(inner, dict):
                walk(inner, path)

    walk(document, ())
    return found


def test_the_number_of_settings_does_not_grow():
    """To add a field, replace a setting that nobody tunes by a constant, and keep these numbers."""
    kinds = {"care": Settings, "judge": JudgeSpec, "testset": TestsetSpec}
    assert {file: len(fields_of(kind.model_json_schema())) for file, kind in kinds.items()} == MOST_FIELDS
