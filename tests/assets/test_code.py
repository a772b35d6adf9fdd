"""Tests of an asset's code version, which covers the files of the packages that compute the asset."""

import pytest

from assets import code
from assets.code import code_version


@pytest.mark.parametrize(
    ("changed", "is_covered"),
    [
        ("fit/panel.py", True),
        ("fit/parts/schema.sql", True),
        ("fit/page.html", True),
        ("scales.py", True),
        ("fit/notes.md", False),
        ("results/panel.py", False),
    ],
)
def test_a_version_covers_code_templates_and_schemas_of_its_packages(tmp_path, monkeypatch, changed, is_covered):
    monkeypatch.setattr(code, "_ROOT", tmp_path)
    monkeypatch.setattr(code, "_digest", code._digest.__wrapped__)
    for name in ("fit/panel.py", "fit/parts/schema.sql", "scales.py", "results/panel.py", changed):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    before = code_version("fit", "scales.py")
    (tmp_path / changed).write_text("changed")
    assert (code_version("fit", "scales.py") != before) == is_covered
    (tmp_path / changed).write_text(changed)
    assert code_version("fit", "scales.py") == before
