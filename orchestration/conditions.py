"""When an asset is stale: one rule, by which the daemon and ``care run`` go alike."""

from __future__ import annotations

import dagster as dg

AC = dg.AutomationCondition

_CHANGED = AC.data_version_changed() & ~AC.executed_with_root_target()
"""Of an input: it has another content, and was not made by a run that makes the asset itself as well."""


def stale(changed: dg.AutomationCondition | None = None) -> dg.AutomationCondition:
    """The asset is missing, or its code or an input has changed since it was last asked for.

    A change is remembered until the asset is asked for, so that a change that comes while something upstream still
    runs is not lost. What failed is not asked for again: its run is tried once more as it is (``launches.RETRY``).

    Parameters
    ----------
    changed : AutomationCondition, optional
        Whether the inputs have changed; by default, whether the data version of one of them has.
    """
    changed = changed or AC.any_deps_match(_CHANGED)
    reset = AC.newly_requested() | AC.initial_evaluation()
    return (
        ((AC.missing() & ~AC.execution_failed()) | AC.code_version_changed().since(reset) | changed.since(reset))
        & ~AC.any_deps_in_progress()
        & ~AC.in_progress()
    ).with_label("stale")


def from_all_inputs() -> dg.AutomationCondition:
    """Stale, and every input has been made: for stages that need all of them."""
    return (stale() & ~AC.any_deps_missing()).with_label("stale, all inputs there")


def from_any_input() -> dg.AutomationCondition:
    """Stale, some input has been made, and no other one is still to come; an input that failed is not waited for."""
    failed = AC.execution_failed()
    # What holds up a slice of scores is its judge, two steps upstream: scores, score_parts, judge_inference.
    held_up = failed | AC.any_deps_match(failed | AC.any_deps_match(failed))
    on_its_way = AC.missing() & ~held_up
    return (stale() & AC.any_deps_match(~AC.missing()) & ~AC.any_deps_match(on_its_way)).with_label(
        "stale, inputs there or failed"
    )


def from_inputs_so_far() -> dg.AutomationCondition:
    """Stale, and some input has been made: for lists of what has been made so far, which wait for nothing."""
    return (stale() & AC.any_deps_match(~AC.missing())).with_label("stale, some input there")


def following() -> dg.AutomationCondition:
    """As ``from_all_inputs``, or an input is about to be asked for: where that changes, this surely changes too.

    Both then share a run, and seven runs for each test set become one. Labels are an exception: they are read anew
    together with the items, and mostly have not changed. So are probes, which are read anew together with the panel,
    before the moments that a fit waits for.
    """
    coming = AC.any_deps_match(AC.will_be_requested()).ignore(dg.AssetSelection.assets("gold", "probes"))
    changed = AC.any_deps_match(_CHANGED) | coming
    return (stale(changed) & ~AC.any_deps_missing()).with_label("stale, or an input will be")


CONDITIONS: dict[str, dg.AutomationCondition] = {
    **dict.fromkeys(("items", "gold", "scores", "moments"), from_all_inputs()),
    **dict.fromkeys(("judge_inference", "panel"), from_any_input()),
    **dict.fromkeys(
        ("probes", "structure", "aggregates", "review", "evaluation", "intervals", "systems", "factors", "report"),
        following(),
    ),
    "report_index": from_inputs_so_far(),
}
"""The condition of every asset of a night; assets of the same condition share the object."""
