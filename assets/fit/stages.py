"""The stages of a fit, and the code that each of them runs."""

import hashlib

from assets.code import code_version

STAGES = ("panel", "moments", "structure", "aggregates")
"""Of a fit, in order."""


def stage_code(stage: str) -> str:
    """Version of the code of one stage."""
    return code_version(f"{__package__}.{stage}", "care_ops")


def fit_code() -> str:
    """Version of the code of all stages together."""
    return hashlib.sha256("".join(map(stage_code, STAGES)).encode()).hexdigest()[:16]
