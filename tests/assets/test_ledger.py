"""The ledger of the paper's numbers: complete, typed once, and ours computed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from assets.experiments.ledger import (
    AS_RELEASED,
    FOLLOWS,
    NEEDS_MODELS,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    ledger_rows,
)
from assets.experiments.paper_numbers import FROM_TABLES, paper_numbers
from assets.experiments.registry import KEYS

_NUMBER = re.compile(r"-?\d+\.\d+")

_WORDS_ONLY = {"table:glossary"}


def _paper() -> str:
    folder = os.environ.get("CARE_DATA_DIR")
    tex = Path(folder or ".").parent / "paper" / "care.tex"
    if not folder or not tex.exists():
        pytest.skip("needs the paper's tex: set CARE_DATA_DIR to a data folder with paper/care.tex beside it")
    return tex.read_text(encoding="utf-8")


def _tables_of(tex: str) -> dict[str, list[list[str]]]:
    """Numbers of the tex's tables by label and row, rows without any left out."""
    tables: dict[str, list[list[str]]] = {}
    for environment in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", tex, re.DOTALL):
        label = re.search(r"\\label\{([^}]*)\}", environment)
        body = re.search(r"\\begin\{tabular\*?\}(.*?)\\end\{tabular", environment, re.DOTALL)
        assert label is not None
        assert body is not None
        if label[1] not in _WORDS_ONLY:
            rows = [line.partition("&")[2] for line in body[1].split(r"\\")]
            tables[label[1]] = [numbers for numbers in map(_NUMBER.findall, rows) if numbers]
    return tables


def test_every_number_of_the_papers_tables_is_there():
    ours = {
        table.label: [
            [number for cell in row for number in _NUMBER.findall(cell if isinstance(cell, str) else f"{cell:.3f}")]
            for row in table.printed.values()
        ]
        for table in paper_numbers().tables
    }
    assert ours == _tables_of(_paper())


def test_numbers_that_the_text_names_are_in_the_text():
    text = re.sub(r"\s+", " ", _paper())
    for claim in paper_numbers().claims:
        if claim.value is not None and not claim.value.is_integer():
            assert f"{abs(claim.value):.10g}" in text, claim.says


def test_every_row_names_an_experiment_and_says_what_it_rests_on():
    numbers = paper_numbers()
    for table in numbers.tables:
        assert table.asset in KEYS
        assert table.needs
        assert bool(table.ours) == bool(table.columns) == bool(table.rows)
        assert set(table.columns) <= set(table.printed_columns)
        assert set(table.rows) <= set(table.printed)
    for claim in numbers.claims:
        assert claim.asset in KEYS, claim.says
        assert not claim.printed or claim.printed in FROM_TABLES, claim.says
        assert (claim.value is not None) + (claim.at_least is not None) + (claim.at_most is not None) == 1, claim.says
        assert claim.printed or claim.measure or claim.needs, claim.says
    assert set(FROM_TABLES) == {claim.printed for claim in numbers.claims if claim.printed}, (
        "none is computed for nobody"
    )


def test_the_documented_ledger_has_every_row():
    page = (Path(__file__).parents[2] / "benchmarks" / "results" / "reproduction.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("|")]
    for row in ledger_rows({}):
        told = row.says.replace("|", "\\|")
        assert any(told in line and row.place in line for line in lines), f"{row.place}: {row.says}"


def _verdicts(measures: dict[str, dict[str, float]]) -> dict[tuple[str, str], tuple[str, str]]:
    return {(row.place, row.says): (row.verdict, row.why) for row in ledger_rows(measures)}


def test_a_verdict_is_what_the_measures_say():
    without = _verdicts({})
    mv, avg = ("tab:results_scoring", "MV, ASSET"), ("tab:results_scoring", "AVG, ASSET")
    assert without[mv][0] == NOT_RUN
    assert without["tab:results_scoring", "MV, Yelp"][0] == NEEDS_MODELS
    measures = {
        "paper_tables": {
            "my_asset/mv/all items": 31.2,
            "my_asset/avg/all items": 30.0,
            "my_asset/avg/items that all judges scored": 33.7,
            "my_asset/care_svd/all items": 33.0,
            "other/ws/all items": 29.0,
        }
    }
    verdicts = _verdicts(measures)
    assert verdicts[mv][0] == REPRODUCED
    assert verdicts[avg][0] == AS_RELEASED
    assert verdicts["tab:results_scoring", "CARE-SVD, ASSET"][0] == NOT_REPRODUCED
    assert "location" in verdicts["tab:results_scoring", "CARE-SVD, ASSET"][1]
    assert verdicts["tab:results_scoring", "WS, ASSET"][0] == NOT_RUN, "another test set is no answer"


def test_what_the_paper_says_of_its_own_tables_is_recomputed():
    rows = {row.says: row for row in ledger_rows({})}
    against_mv = rows["MAE reduced by 26.8 % against MV on UltraFeedback"]
    assert against_mv.verdict == FOLLOWS
    assert against_mv.ours == pytest.approx(100 * (1 - 0.623 / 0.851))
    largest = rows["error reduced by up to 26.8 % over existing aggregation methods"]
    assert largest.ours == pytest.approx(100 * (1 - 0.694 / 1.037)), "against AVG on Yelp it is more"
    averaged = next(row for says, row in rows.items() if "17.37" in says)
    assert averaged.verdict == NOT_REPRODUCED, "the mean of the six reductions is another number"
    assert rows["the same as a reduction of the summed MAEs, against AVG"].verdict == FOLLOWS
