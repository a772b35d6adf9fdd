"""When an asset is stale: the one rule, used by the daemon and by ``care run`` alike (law 11).

Belongs here: automation conditions. Does not: evaluating them (``runner``, or Dagster's daemon).
"""

from __future__ import annotations

import dagster as dg

AC = dg.AutomationCondition


def stale(changed: dg.AutomationCondition | None = None) -> dg.AutomationCondition:
    """Missing, or its code or any input has changed since it was last asked for; tried once more on failure.

    A change is latched until the asset is requested, so that one that comes while something upstream
    still runs is not lost.

    Parameters
    ----------
    changed : AutomationCondition, optional
        When the inputs have changed; by default when the data version of one has.
    """
    changed = changed or AC.any_deps_match(AC.data_version_changed())
    reset = AC.newly_requested() | AC.initial_evaluation()
    return (
        (
            (AC.missing() & ~AC.execution_failed())
            | AC.code_version_changed().since(reset)
            | changed.since(reset)
            | AC.execution_failed().newly_true()
        )
        & ~AC.any_deps_in_progress()
        & ~AC.in_progress()
    ).with_label("stale")


def from_all_inputs() -> dg.AutomationCondition:
    """Stale, once every input is there: for stages that cannot start without one."""
    return (stale() & ~AC.any_deps_missing()).with_label("stale, all inputs there")


def from_any_input() -> dg.AutomationCondition:
    """Stale, once some input is there and no other is still on its way: one that failed does not hold up the rest."""
    failed = AC.execution_failed()
    # A slice is held up by its judge, two steps up: score_parts, judge_inference.
    held_up = failed | AC.any_deps_match(failed | AC.any_deps_match(failed))
    on_its_way = AC.missing() & ~held_up
    return (stale() & AC.any_deps_match(~AC.missing()) & ~AC.any_deps_match(on_its_way)).with_label(
        "stale, inputs there or failed"
    )


def from_what_is_there() -> dg.AutomationCondition:
    """Stale, once some input is there: for a list of what there is, which waits for nobody."""
    return (stale() & AC.any_deps_match(~AC.missing())).with_label("stale, some input there")


def following() -> dg.AutomationCondition:
    """As ``from_all_inputs``, and as soon as an input is asked for: where one stage changes the next surely does.

    They then share a run, which a night feels: seven runs a test set become one.
    """
    # Labels are read anew with every item, and mostly come back the same.
    coming = AC.any_deps_match(AC.will_be_requested()).ignore(dg.AssetSelection.assets("gold"))
    changed = AC.any_deps_match(AC.data_version_changed()) | coming
    return (stale(changed) & ~AC.any_deps_missing()).with_label("stale, or an input will be")


def for_reports() -> dg.AutomationCondition:
    """As ``following``, held back while a blocking check upstream fails."""
    return (following() & AC.all_deps_blocking_checks_passed()).with_label("stale, checks passed")


CONDITIONS: dict[str, dg.AutomationCondition] = {
    "items": from_all_inputs(),
    "gold": from_all_inputs(),
    "judge_inference": from_any_input(),
    "scores": from_all_inputs(),
    "panel": from_any_input(),
    "moments": from_all_inputs(),
    "structure": following(),
    "aggregates": following(),
    "review": following(),
    "evaluation": following(),
    "intervals": following(),
    "systems": following(),
    "factors": following(),
    "report": for_reports(),
    "report_index": from_what_is_there(),
}
