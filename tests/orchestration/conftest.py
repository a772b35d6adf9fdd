"""Nights of toy workspaces as they are on most nights: no fit of theirs is compared with other solvers."""

from collections.abc import Iterator

import pytest

from assets.publication import other_solvers

COMPARE = ("test_apart", "test_planted_night", "test_review")
"""Modules that look at the comparison, or at nights of other processes, which make it; it takes a second or two."""


@pytest.fixture(autouse=True, scope="module")
def _other_solvers_rest(request) -> Iterator[None]:
    """Of a whole module, so that what its fixtures make is made as its tests make it."""
    with pytest.MonkeyPatch.context() as patched:
        if request.path.stem not in COMPARE:
            patched.setattr(other_solvers, "MOST_JUDGES", 0)
        yield
