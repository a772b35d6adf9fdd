"""Prices of the models behind today's endpoints: a dated table, of which a judge's file may say otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml


@dataclass(frozen=True)
class Price:
    """What a model's tokens cost, in US dollars per million.

    Attributes
    ----------
    read, cached, written : float
        Tokens of a prompt, those of them that the endpoint had read before, and tokens of an answer with its reasoning.
    source : str
        Who says so, and when.
    """

    read: float
    cached: float
    written: float
    source: str

    def of(self, read: float, written: float, cached: float = 0.0) -> float:
        """What so many tokens cost, in US dollars; ``cached`` ones are among those read."""
        return ((read - cached) * self.read + cached * self.cached + written * self.written) / 1e6

    def at(self, share: float) -> Price:
        """This share of the price."""
        source = f"{share:g} of {self.source}, for files"
        return Price(share * self.read, share * self.cached, share * self.written, source)


def listed(base_url: str, model: str) -> Price | None:
    """The price in the table; None where it has none for the model at this host."""
    table = _table()
    row = table["prices"].get(urlsplit(base_url).hostname, {}).get(model)
    return None if row is None else Price(*row, source=f"{table['source']} of {table['date']}")


@cache
def _table() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
