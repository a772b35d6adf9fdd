"""Tests that mutants are single changes that compile, and that a failing test kills a mutant."""

import ast

import pytest

from tests.support import mutants
from tests.support.mutants import Mutant, draw, mutants_of

SOURCE = '''
"""A docstring of 1 line."""
MOST = 3

def share(a: int | None, b: float = 0.5) -> float:
    """The 2 of them."""
    if a is None or b <= 0.0:
        raise ValueError(f"{a + 1} and {'é' * 2} are not 5")
    total = {}
    total["é"] = a + b
    return max(total["é"], MOST)
'''
EXPECTED = {
    ("3", "4"),
    ("0.5", "1.0"),
    ("a is None", "(a is not None)"),
    ("b <= 0.0", "(b < 0.0)"),
    ("b <= 0.0", "(b > 0.0)"),
    ("0.0", "1.0"),
    ("a is None or b <= 0.0", "(a is None and b <= 0.0)"),
    ("a is None or b <= 0.0", "(not (a is None or b <= 0.0))"),
    ('total["é"] = a + b', "pass"),
    ("a + b", "(a - b)"),
    ('return max(total["é"], MOST)', "return None"),
    ("max", "min"),
}


def changed(mutant: Mutant, source: bytes) -> bytes:
    return source[: mutant.start] + mutant.after.encode() + source[mutant.end :]


def test_mutants_of_a_module_are_the_expected_ones():
    made = list(mutants_of(SOURCE.encode()))
    assert {(mutant.before, mutant.after) for mutant in made} == EXPECTED
    assert len(made) == len(EXPECTED)
    assert {mutant.function for mutant in made} == {"module", "share"}


@pytest.mark.slow
def test_every_mutant_of_the_code_can_be_compiled_and_differs_from_it():
    for stratum in mutants.STRATA:
        for mutant in list(mutants.candidates_of(stratum))[::23]:
            source = (mutants.ROOT / mutant.file).read_bytes()
            assert ast.dump(ast.parse(changed(mutant, source))) != ast.dump(ast.parse(source)), mutant


def test_a_seed_draws_the_same_mutants_as_many_of_each_stratum():
    candidates = {stratum: list(mutants.candidates_of(stratum)) for stratum in mutants.STRATA}
    drawn = draw(candidates, 200, 44)
    assert drawn == draw(candidates, 200, 44) != draw(candidates, 200, 45)
    assert [mutant.stratum for mutant in drawn[:6]] == list(mutants.STRATA)
    counts = [sum(mutant.stratum == stratum for mutant in drawn) for stratum in mutants.STRATA]
    assert counts == [34, 34, 33, 33, 33, 33]
    assert len({mutant.key for mutant in drawn}) == 200


@pytest.mark.slow
def test_a_mutant_is_killed_if_a_test_fails_and_survives_otherwise(tmp_path):
    (tmp_path / "m.py").write_text("def sign(x):\n    return 1 if x > 0 else -1\n")
    (tmp_path / "test_m.py").write_text("from m import sign\n\n\ndef test_sign():\n    assert sign(2) == 1\n")
    made = list(mutants_of((tmp_path / "m.py").read_bytes(), file="m.py"))
    ended = {(mutant.before, mutant.after): mutants.ending_of(mutant, tmp_path, ["test_m.py"], 60) for mutant in made}
    assert ended["x > 0", "(x >= 0)"] == ended["-1", "(1)"] == "survived"
    assert ended["x > 0", "(x <= 0)"] == ended["return 1 if x > 0 else -1", "return None"] == "killed"
