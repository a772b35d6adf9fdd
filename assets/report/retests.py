"""Retests of judges: how far scores move when a judge scores the same items again.

The canary retests models behind an API daily; ``care judges retest`` retests any judge. CARE stores the
results in Dagster's event log.
"""

import json
from datetime import UTC, datetime

import dagster as dg

from assets.judge_keys import effective_spec, engine_context
from assets.judging.canary import CHECK
from assets.judging.failures import answers
from assets.mount import UNMOUNTED, Mount
from assets.report.data import Retest
from assets.workspace import Workspace
from judges.items import ONE
from judges.spec import OpenAIEngine


def last_retest(instance: dg.DagsterInstance, judge: str, mount: Mount = UNMOUNTED) -> Retest | None:
    """Read the last retest of a judge from Dagster's events; return None if there is none."""
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=mount.key("canary"), asset_partitions=[judge]), limit=1
    ).records
    if not records or records[0].asset_materialization is None:
        return None
    kept = {name: entry.value for name, entry in records[0].asset_materialization.metadata.items()}
    asked, moved = kept.get("asked"), kept.get("moved")
    asked_at = f"{datetime.fromtimestamp(records[0].timestamp, UTC):%Y-%m-%d %H:%M}"
    if isinstance(asked, int) and asked and (moved is None or isinstance(moved, float)):
        passed, message = kept.get(CHECK) is not False, str(kept.get("message", kept.get("says", "")))
        return Retest(asked, moved, asked_at, str(kept.get("answered_by", "")), passed, message)
    return None


def flip_rate(workspace: Workspace, judge: str, testset: str) -> str:
    """Describe how often repeated scores of the same item differ; the text is empty for a judge without ``repeats``."""
    engine = workspace.judge(judge).engine
    if not isinstance(engine, OpenAIEngine) or engine.repeats == 1:
        return ""
    template = engine_context(workspace).template(effective_spec(workspace, judge, testset))
    answered = answers(workspace, judge, testset, "item_id", "p_json")
    newest = {row["item_id"]: row["p_json"] for row in answered if row["p_json"]}
    grade = (lambda score: (score > 0) - (score < 0)) if template.pairwise else round
    askings = [json.loads(kept)[ONE] for kept in newest.values()]
    graded = [[grade(score) for score in scores if score is not None] for scores in askings]
    repeated = [len(set(grades)) > 1 for grades in graded if len(grades) > 1]
    kind = "winners" if template.pairwise else "grades"
    return (
        f"the judge scored each item {engine.repeats} times, and {sum(repeated):,} of {len(repeated):,} items got "
        f"different {kind} (flip rate {sum(repeated) / max(len(repeated), 1):.1%}); an item's score is the mean"
    )
