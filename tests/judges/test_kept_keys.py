"""Tests that judges keep the keys of earlier releases, because a new key would ask and pay a judge again."""

import pytest

from judges.spec import JudgeSpec

REVISION = "0123456789abcdef" * 2 + "01234567"

KEPT = {
    "program": (
        {"engine": {"kind": "program", "program": "length"}},
        "c935887eea02093ce32a4f48eb0ffe1d",
    ),
    "program on a scale": (
        {"scale": [0, 5], "engine": {"kind": "program", "program": "trustworthiness"}},
        "7904def7e7107d2ad9219a02fed57292",
    ),
    "recorded": (
        {"engine": {"kind": "recorded", "column": "gpt-4"}},
        "69bda5ecd5346f0d477336cd0e4625e9",
    ),
    "vllm": (
        {"engine": {"kind": "vllm", "model": "Qwen/Qwen3-8B", "revision": REVISION, "template": "quality"}},
        "aef6e842dee0859132fb21c3a7646e22",
    ),
    "vllm one dtype": (
        {
            "scale": [1, 5],
            "engine": {
                "kind": "vllm",
                "model": "a/b",
                "revision": REVISION,
                "template": "answer_rating",
                "dtype": "bfloat16",
                "max_length": 2048,
            },
        },
        "7ccad104d3533dac9334ed07f5562b84",
    ),
    "vllm text raw": (
        {
            "engine": {
                "kind": "vllm",
                "model": "a/b",
                "revision": REVISION,
                "template": "preference",
                "scoring": "text",
                "prompt": "raw",
                "orders": "given",
                "max_tokens": 8,
            }
        },
        "04aa9ec1f03a47ec5c2974b4abe5f98f",
    ),
    "openai": (
        {"engine": {"kind": "openai", "model": "m", "base_url": "https://example.org/v1", "template": "yelp"}},
        "d107a0123a971fead1b24af7ea9f7c11",
    ),
    "openai limited": (
        {
            "engine": {
                "kind": "openai",
                "model": "m",
                "base_url": "https://example.org/v1",
                "template": "summary",
                "requests_per_minute": 60,
                "price_in": 1.0,
                "price_out": 2.0,
                "spend_limit": 5.0,
            }
        },
        "d107a0123a971fead1b24af7ea9f7c11",
    ),
}
"""Judges, and their keys for the revision "r" at commit f1506ab."""


@pytest.mark.parametrize(("file", "key"), KEPT.values(), ids=KEPT)
def test_a_judge_keeps_the_key_that_an_earlier_release_gave_it(file, key):
    assert JudgeSpec.model_validate({"name": "judge", **file}).key("r") == key
