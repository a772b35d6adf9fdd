"""Forecast of a run's items, tokens, cost and time, and checks of judges before money is spent.

Tokens and time of a question are means over the judge's cost records in this workspace. Without records, tokens are
guessed from the length of prompts, and the time is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from assets.judge_keys import effective_spec, engine_context, judge_item
from assets.judging.batches import open_batches
from assets.judging.pending import pending
from assets.sources import flagged, read_source, recorded_scores
from assets.workspace import Workspace
from care_ops.errors import CareError, JudgeError, counted
from judges.items import Item
from judges.prompts import Template
from judges.questions import ItemsInMemory, ItemSource
from judges.spec import JudgeSpec, LanguageModel, OpenAIEngine
from warehouse.items import ITEM_TEXTS, ItemRecord

_CHARACTERS_OF_A_TOKEN = 4
"""Approximate number of characters of English text in a token."""

SAMPLE = 50
"""Number of items whose prompts are read to guess the tokens of a question."""


@dataclass(frozen=True)
class Forecast:
    """Forecast of the requests to one judge for the scores of one test set.

    Attributes
    ----------
    items, questions : int
        Numbers of items to score and of questions to send. Items with equal texts share a question; items
        with recorded scores need no question.
    tokens : float
        Tokens that the judge will read and write; 0 if the judge is not a language model.
    dollars : float or None
        Cost at the prices in the judge's file or in CARE's price table; None if neither has a price.
    seconds : float or None
        Expected time; None if the judge has scored nothing in this workspace yet.
    measured : bool
        Whether tokens and time are measured in this workspace.
    given_up : int
        Items that CARE no longer retries, because the judge's ``attempts`` are used up.
    failure : str
        Reason why there is no forecast; otherwise empty.
    message : str
        Warning to read before paying for the scores; empty if there is none.
    """

    judge: str
    testset: str
    items: int = 0
    questions: int = 0
    tokens: float = 0.0
    dollars: float | None = 0.0
    seconds: float | None = None
    measured: bool = False
    given_up: int = 0
    failure: str = ""
    message: str = ""


@dataclass(frozen=True)
class Rate:
    """Mean time and tokens per question of a judge."""

    seconds: float
    tokens_in: float
    tokens_cached: float
    tokens_out: float


def forecast(workspace: Workspace, judges: Sequence[str], testsets: Sequence[str]) -> list[Forecast]:
    """Forecast the number, cost and time of the requests to the judges, without sending a request.

    Only judges with items to score, or with items that CARE no longer retries, are included. If a judge or test set
    cannot be read, its forecast states the failure.
    """
    rows: list[Forecast] = []
    known = rates(workspace)
    for testset in testsets:
        try:
            items = [judge_item(record) for record in read_source(workspace, testset)]
        except CareError as error:
            rows.append(Forecast("", testset, failure=str(error)))
            continue
        available = available_texts(items)
        for judge in judges:
            if testset not in workspace.testsets_of(judge):
                continue
            try:
                check_texts(workspace, judge, testset, available)
                row = _forecast_slice(workspace, judge, testset, items, known.get(judge))
            except CareError as error:
                row = Forecast(judge, testset, failure=str(error))
            if row.items or row.given_up or row.failure:
                rows.append(row)
    return rows


def available_texts(items: Iterable[Item | ItemRecord]) -> set[str]:
    """Return the names of the texts (``prompt``, ``response`` ...) that at least one item has."""
    names = set[str]()
    for item in items:
        names |= {name for name in ITEM_TEXTS if name not in names and (getattr(item, name) or "").strip()}
    return names


def check_texts(workspace: Workspace, judge: str, testset: str, available: Collection[str]) -> None:
    """Raise ``JudgeError`` if a judge's template needs a text that no item of a test set has.

    ``available`` are the names of texts that at least one item has. The template must also pass ``check_template``.
    """
    check_template(workspace, judge, testset, available)
    template = _template(workspace, judge, testset)
    if template is not None and (missing := [name for name in template.needs if name not in available]):
        names = ", ".join(missing)
        raise JudgeError(
            f"judge {judge!r}: template {template.name!r} needs {names}, which no item of test set {testset} has; name "
            "the column under `columns` of the test set's source, or choose another template"
        )


def check_template(workspace: Workspace, judge: str, testset: str, available: Collection[str]) -> None:
    """Raise ``JudgeError`` if a judge's template does not suit the items or the recorded scores of a test set.

    A template for pairs must show both answers. A high score from the template must favour the same answer as a high
    recorded score. Raises ``InputError`` if the template is missing.
    """
    template = _template(workspace, judge, testset)
    if template is None:
        return
    if "response_2" in available and "response_2" not in template.shown:
        raise JudgeError(
            f"template {template.name!r} shows one answer, but items of test set {testset} are pairs; leave the test "
            f"set out of `testsets` in the file of judge {judge!r}, or give the judge a `template` with `response_2`"
        )
    if template.pairwise and (wrong := workspace.two_directions(testset)):
        raise JudgeError(wrong)


def scale_warning(workspace: Workspace, judge: str, testset: str) -> str:
    """Return a warning if a judge's scale differs from the test set's scale and its scores are not converted.

    Otherwise, return an empty string. The test set's scale comes from its file or from recorded grades.
    """
    from care_ops.scales import scale_of_grades

    spec, template = workspace.testset(testset), _template(workspace, judge, testset)
    if template is None or template.values is None or None not in (spec.scale, workspace.judge(judge).scale):
        return ""
    table = recorded_scores(workspace, testset) if spec.scale is None else None
    its = spec.scale if table is None else scale_of_grades(table.scores)
    scores = template.answers(its).values()
    own = min(scores), max(scores)
    if its in (None, own):
        return ""
    (low, high), (bottom, top) = own, its
    declare = f"`scale: [{low:g}, {high:g}]` in the judge's file" + (
        "" if spec.scale is not None else f" and `scale: [{bottom:g}, {top:g}]` in the test set's file"
    )
    return (
        f"the scores of judge {judge!r} will not be converted to the scale of {testset}, {bottom:g} to {top:g}: "
        f"template {template.name!r} gives scores from {low:g} to {high:g}; to convert them, set {declare}"
    )


def injection_warning(spec: JudgeSpec, to_ask: Sequence[Item]) -> str:
    """Return a warning if items may contain prompt injections for an LLM judge; otherwise return an empty string."""
    flags = flagged(to_ask) if spec.engine.needs.template else {}
    if not flags:
        return ""
    first, rules = next(iter(flags.items()))
    return (
        f"{counted(len(flags), 'item')} of {len(to_ask):,} may try to influence the judge, such as {first!r} "
        f"({rules[0]}): read these items, or set `judging: {{leave_out_flagged: true}}` in care.yaml to leave them out"
    )


def sample_of(items: ItemSource) -> list[Item]:
    """Read an evenly spaced sample of items."""
    return items.read(range(0, len(items.keys), max(1, len(items.keys) // SAMPLE)))


def _template(workspace: Workspace, judge: str, testset: str) -> Template | None:
    spec = effective_spec(workspace, judge, testset)
    return engine_context(workspace).template(spec) if spec.engine.needs.template else None


def _forecast_slice(
    workspace: Workspace, judge: str, testset: str, items: Sequence[Item], rate: Rate | None
) -> Forecast:
    wanted = pending(workspace, workspace.parts, judge, testset, ItemsInMemory(items))
    to_ask = [item for item in items if item.key not in wanted.settled]
    if wanted.spec.engine.needs.recordings:  # scores are read from a file
        return Forecast(judge, testset, len(to_ask), seconds=0.0)
    given_up = len(wanted.given_up & {i.key for i in items})
    waiting = [batch for batch in open_batches(workspace, judge, testset) if batch.judge_key == wanted.key]
    questions = max(0, len({item.text_key for item in to_ask}) - sum(batch.questions for batch in waiting))
    found = expected(workspace, wanted.spec, rate, questions, to_ask[:: max(1, len(to_ask) // SAMPLE)])
    left = max(0, len(to_ask) - sum(batch.items for batch in waiting))
    warnings = scale_warning(workspace, judge, testset), injection_warning(wanted.spec, to_ask)
    return replace(found, testset=testset, items=left, given_up=given_up, message="; ".join(filter(None, warnings)))


def expected(
    workspace: Workspace, spec: JudgeSpec, rate: Rate | None, questions: int, sample: Sequence[Item]
) -> Forecast:
    """Forecast tokens, cost and time of questions from ``rate``; without ``rate``, guess tokens from sample prompts."""
    rated = rate or Rate(0.0, *_guessed(workspace, spec, sample))
    engine, dollars = spec.engine, 0.0
    if isinstance(engine, OpenAIEngine):
        price = engine.batch_price if engine.batch else engine.price
        each = (rated.tokens_in, rated.tokens_out, rated.tokens_cached)
        dollars = None if price is None else questions * price.of(*each)
    seconds = None if rate is None else questions * rate.seconds
    tokens = questions * (rated.tokens_in + rated.tokens_out)
    return Forecast(spec.name, "", questions, questions, tokens, dollars, seconds, measured=rate is not None)


def rates(workspace: Workspace) -> dict[str, Rate]:
    """Compute each judge's mean time and tokens per question over the last thirty days."""
    asked: dict[str, list[dict[str, Any]]] = {}
    for row in workspace.bills.read(since=f"{datetime.now(UTC) - timedelta(30):%F}").to_pylist():
        if row["questions"]:
            asked.setdefault(row["judge"], []).append(row)
    names = ("seconds", "tokens_in", "tokens_cached", "tokens_out")
    return {
        judge: Rate(*(sum(row[name] for row in rows) / sum(row["questions"] for row in rows) for name in names))
        for judge, rows in asked.items()
    }


def _guessed(workspace: Workspace, spec: JudgeSpec, sample: Sequence[Item]) -> tuple[float, float, float]:
    """Estimate tokens per question (read, cached, written) from sample prompts; 0 for a judge without prompts."""
    engine = spec.engine
    if not isinstance(engine, LanguageModel) or not sample:
        return 0.0, 0.0, 0.0
    template = engine_context(workspace).template(spec)
    characters = sum(len(template.render(item, spec.scale)) for item in sample) / len(sample)
    shown = 2 if template.pairwise and engine.orders == "both" else 1
    shown *= engine.repeats if isinstance(engine, OpenAIEngine) else 1
    written = engine.max_tokens if engine.scoring == "text" else 1
    return shown * characters / _CHARACTERS_OF_A_TOKEN, 0.0, float(shown * written)
