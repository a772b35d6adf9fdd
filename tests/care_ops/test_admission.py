"""Tests of admission: each reason is simulated, and differences of quality are never a reason."""

import numpy as np
import pytest

from care_ops.admission import check_panel, concentration, why_left_out
from care_ops.config import AdmissionRule
from tests.support.matrices import matrix


def panel(rng: np.random.Generator, n: int = 600, p: int = 8) -> np.ndarray:
    quality = rng.normal(size=n)
    return np.clip(np.round(5 + 1.5 * quality[:, None] + rng.normal(size=(n, p))), 0, 10)


def found(values: np.ndarray, rule: AdmissionRule | None = None, **more):
    return {c.judge: c for c in check_panel(matrix(values), rule or AdmissionRule(), **more)}


def test_a_clean_panel_is_admitted_whole(rng):
    assert all(c.admitted and c.notes is None for c in found(panel(rng)).values())


def test_missing_and_out_of_range_count_together(rng):
    values = panel(rng)
    values[:60, 0] = np.nan  # exactly the limit
    values[:61, 1] = np.nan
    checks = found(values, AdmissionRule(max_missing=0.1), out_of_range={"j001": 11})
    assert checks["j000"].admitted
    assert "missing or out of range: 10.2%" in checks["j001"].reason
    assert checks["j001"].out_of_range == 11


@pytest.mark.parametrize("poor", [True, False])
def test_a_judge_that_refuses_some_items_counts_on_the_others(rng, poor):
    """Refusals of one topic are accepted, but more than a tenth of scores outside the scale are not."""
    values = panel(rng)
    refused = np.argsort(values.mean(axis=1))[:150] if poor else rng.choice(600, 150, replace=False)
    values[refused[rng.random(150) < 0.7], 0] = np.nan
    assert found(values)["j000"].admitted
    assert not found(values, out_of_range={"j000": 61})["j000"].admitted
    values[:301, 0] = np.nan
    assert not found(values)["j000"].admitted


def test_degenerate_judges_are_left_out(rng):
    values = panel(rng)
    values[:, 0] = np.where(rng.random(600) < 0.96, 7.0, 3.0)
    values[:, 1] = 4.0
    checks = found(values)
    assert checks["j000"].reason.startswith("degenerate: the same score on 9")
    assert checks["j001"].reason == "degenerate: fewer than two different scores"
    values[:, 0] = np.where(np.arange(600) < 565, 7.0, 3.0)  # 94.2 % alike are within the limit of 95 %, .32 bits too
    assert found(values)["j000"].admitted


def test_a_judge_without_scores_and_one_on_another_scale_are_distinguished(rng):
    values = panel(rng)
    values[:, 0] = np.nan
    values[1:, 1] = np.nan
    checks = found(values, out_of_range={"j001": 599})
    assert checks["j000"].reason == "it has no score"
    assert checks["j001"].reason == "599 of its 600 scores lie outside the scale"


@pytest.mark.parametrize("change", [lambda c: np.roll(c, 17), lambda c: c[::-1], lambda c: np.roll(c[::-1], 5)])
def test_agreement_that_comes_back_under_a_shift_excludes(rng, change):
    values = panel(rng)
    values[:, 3] = change(values[:, 3])
    check = found(values)["j003"]
    assert not check.admitted
    assert check.reason.startswith("misaligned: agreement")


@pytest.mark.parametrize(("n", "by"), [(300, 41), (301, 41), (300, -41), (250, 1), (250, -1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_shift_that_is_reported_is_the_best_of_all_and_short(rng, n, by, reverse):
    """A shift by one row was reported as a shift by all rows but one."""
    values = panel(rng, n)
    values[:, 3] = np.roll(values[:, 3][:: -1 if reverse else 1], by)
    rest = np.delete((values - values.mean(axis=0)) / values.std(axis=0), 3, axis=1).sum(axis=1)
    judge = values[:, 3][:: -1 if reverse else 1]
    shifted = [np.corrcoef(np.roll(judge, shift), rest)[0, 1] for shift in range(n)]
    reported = f"becomes {max(shifted):+.2f} when its rows are {'reversed and ' if reverse else ''}shifted"
    shift = int(np.argmax(shifted))
    rows = f"{shift} rows down" if shift <= n / 2 else f"{n - shift} rows up"
    assert found(values)["j003"].reason.endswith(f"{reported} {rows}".replace(" 1 rows", " 1 row"))


def test_chance_and_repetition_are_no_evidence(rng):
    for seed in range(30):
        few = np.random.default_rng(seed).normal(size=(40, 6))
        assert all(c.admitted for c in found(few).values())
    repeated = np.tile(panel(rng, 30), (20, 1))
    repeated[:, 3] = 10 - repeated[:, 3]
    assert found(repeated)["j003"].admitted


def test_a_text_mismatch_excludes(rng):
    assert "texts of 4 rows differ" in found(panel(rng), text_mismatches={"j002": 4})["j002"].reason


def test_disagreeing_is_reported_and_never_excludes(rng):
    values = panel(rng)
    values[:, 5] = 10 - values[:, 5]
    check = found(values)["j005"]
    assert check.admitted
    assert check.notes.startswith("agreement with the other judges is -0.")


def test_a_reversed_scale_is_reported_as_such_where_shifted_rows_would_explain_it_too(rng):
    """Quality is periodic, so a shift by half a period also restores the agreement of a reversed judge."""
    values = 5 + 2 * np.sin(2 * np.pi * np.arange(630) / 126)[:, None] + rng.normal(scale=0.9, size=(630, 8))
    values[:, 3] = 10 - values[:, 3]
    judge, rest = values[:, 3], np.delete(values, 3, axis=1).sum(axis=1)
    assert max(np.corrcoef(np.roll(judge, shift), rest)[0, 1] for shift in range(630)) > 0.7
    check = found(values)["j003"]
    assert check.admitted
    assert check.notes == f"agreement with the other judges is {check.agreement:+.2f}: is its scale reversed?"


def test_shifted_rows_that_a_reversed_scale_explains_less_well_are_reported(rng):
    """Successive items differ strongly, so a shift by one row reverses the agreement."""
    quality = rng.normal(size=600)
    for k in range(1, 600):
        quality[k] -= 0.6 * quality[k - 1]
    values = 5 + quality[:, None] + rng.normal(scale=0.3, size=(600, 8))
    values[:, 3] = np.roll(values[:, 3], 1)
    check = found(values)["j003"]
    assert check.agreement < -0.4
    assert check.reason.endswith("when its rows are shifted 1 row up")


def test_a_constant_judge_reports_nothing_of_the_others(rng):
    """The score may be any number, because the mean of 600 times .1 is not .1 in floating point."""
    values = panel(rng)
    single = found(values)
    for score in (0.1, 4.0):
        neighbour = found(np.column_stack([values, np.full(600, score)]))
        assert neighbour["j008"].agreement is None
        for judge, check in single.items():
            assert neighbour[judge].agreement == pytest.approx(check.agreement, rel=1e-12)


def test_admit_all_keeps_everything_but_constants(rng):
    values = panel(rng)
    values[:300, 0], values[:, 1] = np.nan, 4.0
    checks = found(values, AdmissionRule(admit="all"))
    assert checks["j000"].admitted
    assert not checks["j001"].admitted


def test_concentration_is_shannons():
    share, bits = concentration(np.array([1.0, 1.0, 2.0, 3.0, np.nan]))
    assert (share, bits) == (0.5, 1.5)
    assert concentration(np.array([np.nan])) == (1.0, 0.0)


@pytest.mark.parametrize("share", [0.05, 0.08, 0.1, 0.12, 0.3])
def test_judges_who_lack_what_all_lack_are_all_counted(share):
    for seed in range(10):
        rng = np.random.default_rng([seed, round(100 * share)])
        values = rng.normal(size=(150, 1)) + rng.normal(size=(150, 8))
        values[rng.random(values.shape) < share] = np.nan
        assert sum(check.admitted for check in check_panel(matrix(values), AdmissionRule())) == 8
        failed = check_panel(matrix(values), AdmissionRule(absent="failed", max_missing=0.1))
        assert all(check.admitted == (check.missing_rate <= 0.1) for check in failed)


def test_where_most_judges_lack_scores_these_were_not_asked_for_and_where_one_does_it_has_failed():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(200, 1)) + rng.normal(size=(200, 8))
    everywhere, one = values.copy(), values.copy()
    everywhere[rng.random(values.shape) < 0.3] = np.nan
    one[rng.random(200) < 0.3, 0] = np.nan
    strict = AdmissionRule(max_missing=0.1)
    for holes, admitted in ((everywhere, 8), (one, 7)):
        assert sum(check.admitted for check in check_panel(matrix(holes), strict)) == admitted
    failed = check_panel(matrix(everywhere), AdmissionRule(absent="failed", max_missing=0.1))
    reported = why_left_out(failed, loosen="--admit all", declare="--absent not_asked")
    assert reported == "8 judges lack many scores; if nobody requested these scores, declare this (--absent not_asked)."
    outside = check_panel(matrix(everywhere), strict, out_of_range={"j0": 60})
    assert not any(check.admitted for check in outside), "scores outside a scale were given, so that judges were asked"
