"""The one hierarchy of errors.

Each message says what is wrong, where, and what to do about it. Belongs here: exception classes.
Does not: handling them.
"""


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
