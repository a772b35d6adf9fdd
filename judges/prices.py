"""Prices of models at endpoints, from a dated price table; prices in a judge's file take precedence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml


@dataclass(frozen=True)
class Price:
    """Price of a model's tokens, in US dollars per million tokens.

    Attributes
    ----------
    read, cached, written : float
        Prices of input tokens, of cached input tokens, and of output tokens (with reasoning tokens).
    source : str
        Source and date of the price.
    """

    read: float
    cached: float
    written: float
    source: str

    def of(self, read: float, written: float, cached: float = 0.0) -> float:
        """Return the cost of tokens in US dollars; the input tokens ``read`` include the ``cached`` tokens."""
        return ((read - cached) * self.read + cached * self.cached + written * self.written) / 1e6

    def at(self, share: float) -> Price:
        """Return the price of tokens in batch files: ``share`` times this price."""
        source = f"{share:g} of {self.source}, for batch files"
        return Price(share * self.read, share * self.cached, share * self.written, source)


def listed(base_url: str, model: str) -> Price | None:
    """Look up the price of a model at an endpoint in ``prices.yaml``; return None if it is not listed."""
    table = _table()
    row = table["prices"].get(urlsplit(base_url).hostname, {}).get(model)
    return None if row is None else Price(*row, source=f"{table['source']} of {table['date']}")


@cache
def _table() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
