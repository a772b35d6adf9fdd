"""Stages of a fit, their code version, and the recommended aggregator."""

from collections.abc import Iterable

from assets.code import code_version

STAGES = ("panel", "moments", "structure", "aggregates")


def recommended(aggregators: Iterable[str]) -> str:
    """Return the recommended aggregator: ``care`` if ``aggregators`` contains it, otherwise the first aggregator."""
    names = list(aggregators)
    return "care" if "care" in names else next(iter(names), "")


def fit_code() -> str:
    """Return the version of the code of all stages of a fit."""
    return code_version("assets/fit", "care_ops")


def result_code() -> str:
    """Return the version of the code that computes the results, the review and the pages of a fit."""
    return code_version("assets", "care_ops")
