"""Fixtures that several packages' tests share."""

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of recorded scores; on CI it must be there."""
    folder = os.environ.get("CARE_DATA_DIR")
    if not folder:
        if os.environ.get("CI"):
            pytest.fail("CARE_DATA_DIR is not set on CI, where the tests on real scores must run")
        pytest.skip("set CARE_DATA_DIR to the folder of recorded scores to run this test")
    return Path(folder).absolute()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261120)
