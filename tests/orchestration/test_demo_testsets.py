"""Tests that the test sets of ``care init`` get the verdicts of their descriptions, also with other seeds."""

import numpy as np
import pytest
import yaml

import care_eval
from care_ops.metrics import tau
from orchestration import demo_workspace
from warehouse.sources.demo import generate
from warehouse.testsets import TestsetSpec


def drawn(name: str, seed: int):
    """Return the items of a test set, and its judges as functions; seed 0 is the demo."""
    spec = TestsetSpec.model_validate({"name": name, **yaml.safe_load(demo_workspace.testset_files()[name])})
    programs, judges = demo_workspace.judge_files(seed), {}
    for judge, declared in demo_workspace.JUDGES.items():
        if name in declared["testsets"]:
            names: dict = {}
            exec(programs[f"{judge}.py"], names)
            judges[judge] = names["program_judge"]
    source = spec.source
    return generate(source.countries, seed or source.seed, complete=source.complete), judges


def fit_draw(name: str, seed: int):
    """Return the verdict, and the order against gold of care, the mean and the best judge."""
    records, judges = drawn(name, seed)
    scores = {judge: [function(r.prompt, r.response) for r in records] for judge, function in judges.items()}
    texts = ("item_id", "prompt", "response", "gold", "split_unit")
    result = care_eval.fit(
        {"item_id": [r.item_id for r in records], **scores},
        items={field: [getattr(r, field) for r in records] for field in texts},
        judges={judge: judge.partition("-")[0] for judge in judges},
        judge=list(judges),
        scale=(0, 10),
        intervals=0,
        aggregators=("care", "avg"),
    )
    gold = {r.item_id: r.gold for r in records}
    neighbour = np.array([gold[item] for item in result.items])
    order = {method: tau(result.aggregates[method].estimate, neighbour) or 0.0 for method in ("care", "avg")}
    order["best"] = max(
        tau(np.array(column, float), np.array(list(gold.values()))) or 0.0 for column in scores.values()
    )
    return result.verdict, order


def matches_description(name: str, verdict, order) -> bool:
    """Return whether verdict and order are as the test set's description states."""
    sentences = " ".join(reason.sentence for reason in verdict.reasons)
    if name == "clear":
        return verdict.state == "clear" and order["care"] >= order["avg"]
    if name == "length":
        by_length = "number of words" in sentences or "number of sentences" in sentences
        return verdict.pill == "Don't use yet" and by_length and order["best"] > order["avg"] + 0.1
    once = "gorse-friday and gorse-monday give nearly identical scores; they count as one judge." in sentences
    return verdict.pill == "Use" and once


@pytest.mark.parametrize("seeds", [1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["clear", "length", "copies"])
def test_each_demo_test_set_gets_its_verdict_with_other_seeds(name, seeds):
    """The demo's seed and at least two of three other seeds must give the verdict."""
    draws = [fit_draw(name, seed) for seed in range(seeds)]
    assert all(order["care"] > order["avg"] - 0.005 for _, order in draws)
    printed = [matches_description(name, verdict, order) for verdict, order in draws]
    assert printed[0]
    assert draws[0][0].pill == ("Don't use yet" if name == "length" else "Use")
    assert sum(printed) >= min(seeds, 3)
