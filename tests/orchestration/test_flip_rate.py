"""Tests of the flip rate of a judge that is asked repeatedly."""

from __future__ import annotations

import re

import pytest

from assets.report.names import page_name
from tests.support.endpoints import PRICE_IN, PRICE_OUT, Vendor, number_of
from tests.support.workspaces import make, query, run, write_api_judge, write_distinct_items

N = 30


@pytest.mark.slow
def test_the_card_of_a_repeated_judge_shows_its_flip_rate(tmp_path):
    folder = make(tmp_path / "ws", ("length", "conciseness"), 0)
    write_distinct_items(folder, N)
    asked = {}

    def answer(handler, body):
        k = number_of(body)
        with handler.server.lock:
            asked[k] = asked.get(k, 0) + 1
        return handler.answer(str(asked[k] if k % 3 == 0 else k % 11 or 1), tokens=(100, 10))

    with Vendor(answer) as server:
        options = {"api_key_env": None, "repeats": 3, "extra_body": {"temperature": 1}}
        prices = {"price_in": PRICE_IN, "price_out": PRICE_OUT}
        write_api_judge(folder, server.url, judge="batch_size: 10\n", **options, **prices)
        assert not run(folder).failures
        assert len(server.bodies) == 3 * N
        assert {body["temperature"] for body in server.bodies} == {1}
    joined = "scores JOIN items USING (item_ix) JOIN judges USING (judge_ix)"
    expected = {f"i{k}": 2.0 if k % 3 == 0 else k % 11 or 1 for k in range(N)}
    assert dict(query(folder, f"SELECT item_id, value FROM {joined} WHERE judge = 'api'")) == expected
    page = (folder / "data" / "report" / page_name("one")).read_text()
    (shown,) = re.findall(r"<dt>Repeats</dt><dd>(.*?)</dd>", page)
    assert "10 of 30 items got different grades (flip rate 33.3%)" in shown
