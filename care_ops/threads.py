"""Limit of one BLAS thread, because more threads slow down small problems."""

import sys
from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread."""
    return _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@cache  # once without and once with scipy's BLAS
def _controller(_with_scipy: bool) -> ThreadpoolController:
    return ThreadpoolController()
