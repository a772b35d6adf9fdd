"""Tests that realistic files are read correctly, or refused in one sentence with a next step."""

import importlib.util

import pytest

from tests.support.wild_files import WILD_FILES, WildFile, read


@pytest.mark.parametrize("file", WILD_FILES, ids=lambda file: file.name)
def test_is_read_right_or_refused(file: WildFile, tmp_path):
    if file.needs_excel and importlib.util.find_spec("python_calamine") is None:
        pytest.skip("workbooks need an extra: pip install '.[excel]'")
    outcome = read(file, tmp_path)
    if file.refused is not None:
        assert outcome.refusal is not None, outcome
        assert file.refused in outcome.refusal
        assert "\n" not in outcome.refusal
        assert file.name in outcome.refusal
        return
    assert outcome.refusal is None
    assert outcome.panel == file.panel
    sentences = "\n".join(outcome.sentences)
    for words in file.sentences:
        assert words in sentences
