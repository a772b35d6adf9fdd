"""The one hierarchy of errors.

Each message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence

_LISTED = 12
"""Largest number of names that a sentence lists."""


class CareError(Exception):
    """Base of every error that CARE raises on purpose."""


class InputError(CareError):
    """What was handed in cannot be used: a file, a table, a configuration, an argument."""


class FitError(CareError):
    """The scores are readable, but no trustworthy fit can be made from them."""


class JudgeError(CareError):
    """A judge could not be built or did not answer in the form its specification declares."""


class WarehouseError(CareError):
    """Parts or the database are in a state that must not be built upon."""


def counted(number: int, noun: str) -> str:
    """A number and what is counted, for a sentence."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int = _LISTED) -> str:
    """Join names for a sentence; those after the first ``most`` are only counted."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
