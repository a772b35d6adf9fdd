"""The stages of a fit, the code that each of them runs, and which of its answers is the recommended one."""

import hashlib
from collections.abc import Iterable

from assets.code import code_version

STAGES = ("panel", "moments", "structure", "aggregates")
"""Of a fit, in order."""


def recommended(aggregators: Iterable[str]) -> str:
    """The aggregator whose answer is recommended among those that gave one: ``care``, or else the first."""
    names = list(aggregators)
    return "care" if "care" in names else next(iter(names), "")


def stage_code(stage: str) -> str:
    """Version of the code of one stage."""
    return code_version(f"{__package__}.{stage}", "care_ops")


def fit_code() -> str:
    """Version of the code of all stages together."""
    return hashlib.sha256("".join(map(stage_code, STAGES)).encode()).hexdigest()[:16]
