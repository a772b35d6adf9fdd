"""Stages of a fit with their code versions, and the recommended aggregator."""

import hashlib
from collections.abc import Iterable

from assets.code import code_version

STAGES = ("panel", "moments", "structure", "aggregates")
"""Stages of a fit, in order."""


def recommended(aggregators: Iterable[str]) -> str:
    """Return the recommended aggregator: ``care`` if it gave an estimate, otherwise the first one."""
    names = list(aggregators)
    return "care" if "care" in names else next(iter(names), "")


def stage_code(stage: str) -> str:
    """Return the version of the code of one stage."""
    return code_version(f"{__package__}.{stage}", "care_ops")


def fit_code() -> str:
    """Return the version of the code of all stages."""
    return hashlib.sha256("".join(map(stage_code, STAGES)).encode()).hexdigest()[:16]
