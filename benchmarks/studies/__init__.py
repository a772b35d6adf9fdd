"""Studies of the estimates; each study writes a page of results."""

import logging
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from threadpoolctl import threadpool_limits


@contextmanager
def printed_to(path: Path) -> Generator[None]:
    """Redirect the block's output to a page, and run the block on one BLAS thread without warnings of fits."""
    logging.disable(logging.WARNING)
    with threadpool_limits(limits=1, user_api="blas"), path.open("w", encoding="utf-8") as page, redirect_stdout(page):
        yield
