"""``canary``: a few items that a judge has scored, asked again, to see whether its model is still the same.

A model behind an API can change without a word, and nothing in a judge's key shows it. The answers are
compared and thrown away: no score changes.
"""

import hashlib
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

import dagster as dg

from assets.code import code_version
from assets.judge_keys import effective_spec, engine_context, judge_key
from assets.judging.bill import Account, purses
from assets.metadata import table, warning
from assets.partitions import JUDGES
from assets.workspace import Workspace
from care_ops.errors import JudgeError
from judges.engines.base import StoppedError
from judges.items import FROM_A_FILE, Score, Status
from judges.pool import Pool

CHECK = "same_model"

_TOLERANCE = 0.1
"""Mean absolute change of scores, as a share of the scale, that is let pass: less than one grade of ten, which an
endpoint that does not answer the same twice reaches by itself."""


@dataclass(frozen=True)
class Answer:
    """One item asked again: the score that is kept and the one of today, None where it gave none, and who gave them."""

    testset: str
    item_id: str
    kept: float
    today: float | None
    kept_by: str
    today_by: str | None


@dg.asset(
    partitions_def=JUDGES,
    deps=["judge_inference"],
    group_name="judging",
    kinds={"ray"},
    code_version=code_version(__name__, "judges"),
    check_specs=[
        dg.AssetCheckSpec(
            CHECK,
            asset="canary",
            description="Asked again, the judge answers as it did.",
            blocking=False,
            partitions_def=JUDGES,
        )
    ],
    description="Scored items asked again, every night for judges behind an API: has the model changed silently?",
)
def canary(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Ask again and compare."""
    judge = context.partition_key
    answers = ask_again(workspace, judge)
    moved = movement(workspace, judge, answers)
    before, now = _names(a.kept_by for a in answers), _names(a.today_by for a in answers if a.today is not None)
    others = workspace.judge(judge).engine.needs.endpoint and not now <= before
    still = moved is None or moved <= _TOLERANCE
    passed = still and not others
    if not answers:
        says = "nothing is scored yet"
    elif moved is None:
        says = f"none of {len(answers)} items was answered today; see the judge's `by_status`"
    else:
        says = f"{len(answers)} items moved by {moved:.1%} of the scale on average"
    if others:
        says += f"; {', '.join(sorted(now - before))} answered, where {', '.join(sorted(before))} did before"
    if not still:
        says += f" (tolerance {_TOLERANCE:.0%}): the model behind {judge!r} seems to have changed"
    if not passed:
        says += (
            ". Change `revision` in the judge's file to score everything anew, or pin the fit (`care fits promote`) "
            "until you have"
        )
    return dg.MaterializeResult(
        metadata={
            "asked": len(answers),
            CHECK: passed,
            "says": says,
            **({} if moved is None else {"moved": moved}),
            **({"answered_by": ", ".join(sorted(now))} if now else {}),
            "answers": table([vars(answer) for answer in answers]),
        },
        check_results=[warning(CHECK, says, passed=passed)],
    )


def _names(versions: Iterable[str | None]) -> set[str]:
    """The models that answered, by the versions of their engine."""
    return {name for version in versions if version for name in version.removeprefix("openai ").split(", ")}


def watched(workspace: Workspace) -> list[str]:
    """Judges that are asked again every night: those whose model somebody else runs."""
    if workspace.canary.items == 0:
        return []
    return sorted(j for j, spec in workspace.judges.items() if spec.engine.needs.endpoint)


def ask_again(workspace: Workspace, judge: str) -> list[Answer]:
    """Have a judge score a few items once more; the same ones every night, as long as they are there.

    Raises ``JudgeError`` where the judge cannot be built, cannot be asked, or may not spend what it takes.
    """
    from assets.judging.stored_items import StoredItems

    if workspace.judge(judge).engine.needs.recordings:
        raise JudgeError(f"judge {judge!r}: {FROM_A_FILE}")
    kept: dict[tuple[str, str], tuple[float, str]] = {}
    sources: dict[str, StoredItems] = {}
    for testset in workspace.testsets_of(judge):
        if not workspace.parts.items_file(testset).exists():
            continue
        source = sources[testset] = StoredItems(workspace.parts, testset)
        current_keys = dict(zip(source.ids, source.keys, strict=True))
        rows = workspace.parts.read_scores(
            judge, testset, ("item_id", "item_key", "judge_key", "score", "status", "engine")
        )
        key = judge_key(workspace, judge, testset)
        for row in rows.to_pylist():
            current = current_keys.get(row["item_id"]) == row["item_key"] and row["judge_key"] == key
            if current and row["status"] == Status.OK:
                kept[testset, row["item_id"]] = row["score"], row["engine"]
    chosen = sorted(kept, key=lambda place: hashlib.sha256(repr(place).encode()).digest())[: workspace.canary.items]
    today: dict[tuple[str, str], tuple[float | None, str]] = {}
    account = Account(workspace, judge, purses(workspace))
    with closing(account), Pool(workspace.pool, workspace.ray) as pool, pool.session() as session:
        for testset in sorted({testset for testset, _ in chosen}):

            def sink(scores: list[Score], version: str, testset: str = testset) -> None:
                account.record(len(scores))
                today.update({(testset, score.item_id): (score.score, version) for score in scores})

            position = {item_id: k for k, item_id in enumerate(sources[testset].ids)}
            items_asked = sources[testset].read([position[item_id] for where, item_id in chosen if where == testset])
            context = engine_context(workspace, account.ledger)
            account.begin(testset, "canary")
            try:
                session.run(effective_spec(workspace, judge, testset), items_asked, sink, context)  # type: ignore[arg-type]
            except StoppedError as error:
                raise JudgeError(f"canary of {judge!r}: {error}; set `canary: {{items: 0}}` to do without") from None
            finally:
                account.record()
    answers: list[Answer] = []
    for place in chosen:
        (score, version), (score_today, version_today) = kept[place], today.get(place, (None, None))
        answers.append(Answer(*place, score, score_today, version, version_today))
    return answers


def movement(workspace: Workspace, judge: str, answers: list[Answer]) -> float | None:
    """Mean absolute change as a share of the scale; None where nothing was answered twice.

    Where no scale is declared, the range of the kept scores takes its place.
    """
    shares: list[float] = []
    for testset in {answer.testset for answer in answers}:
        answered = [(a.kept, a.today) for a in answers if a.testset == testset and a.today is not None]
        scale = effective_spec(workspace, judge, testset).scale
        values = [kept for kept, _ in answered]
        span = scale[1] - scale[0] if scale else (max(values) - min(values) if values else 0.0)
        shares += [abs(now - kept) / (span or 1.0) for kept, now in answered]
    return sum(shares) / len(shares) if shares else None
