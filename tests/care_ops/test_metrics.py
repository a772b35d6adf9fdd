"""Tests of metrics that need no gold."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from care_ops.metrics import rank_correlation


def test_rank_correlation_is_scipys_over_what_both_have(rng):
    x, y = rng.integers(0, 5, 60).astype(float), rng.normal(size=60)
    x[:7], y[50:] = np.nan, np.nan
    assert rank_correlation(x, y) == pytest.approx(spearmanr(x[7:50], y[7:50]).statistic)
    assert np.isnan(rank_correlation(x[:8], y[:8]))
    assert np.isnan(rank_correlation(np.ones(5), y[:5]))
