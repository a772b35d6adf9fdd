"""What bringing a workspace up to date will ask of its judges: items, tokens, money and time, before it is spent.

Tokens and seconds of an item are the means of what the judge has scored in this workspace. Where it has scored nothing,
the tokens are guessed from the length of its prompts, and the time is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from assets.judge_keys import effective_spec, engine_context, judge_item
from assets.judging.pending import pending
from assets.probe_items import probe_items
from assets.sources import read_source
from assets.workspace import Workspace
from care_ops.errors import CareError, JudgeError
from judges.items import Item, Status
from judges.spec import JudgeSpec, LanguageModel, OpenAIEngine
from warehouse.items import ITEM_TEXTS, ItemRecord

_CHARACTERS_OF_A_TOKEN = 4
"""Characters of English text in a token, roughly. What rests on it is printed as a guess."""

_SAMPLE = 50


@dataclass(frozen=True)
class Forecast:
    """What asking one judge about one test set will take.

    Attributes
    ----------
    items, questions : int
        Items and probes to be scored, and different texts among them, or 0 where the scores are recorded. Probes are
        known once the items have been read.
    tokens : float
        Tokens to be read and written; 0 where the judge is no language model.
    dollars : float or None
        At the prices in the judge's file; None where that has none.
    seconds : float or None
        None where the judge has scored nothing here yet.
    measured : bool
        Whether tokens and time are measured in this workspace.
    failure : str
        Why nothing can be said; empty where it can.
    """

    judge: str
    testset: str
    items: int = 0
    questions: int = 0
    tokens: float = 0.0
    dollars: float | None = 0.0
    seconds: float | None = None
    measured: bool = False
    failure: str = ""


@dataclass(frozen=True)
class _Rate:
    """Means over the questions that a judge has answered."""

    seconds: float
    tokens_in: float
    tokens_out: float


def forecast(workspace: Workspace, judges: Sequence[str], testsets: Sequence[str]) -> list[Forecast]:
    """A forecast for each of these judges and test sets that has something to ask; nobody is asked.

    A judge or test set that cannot be read has its failure instead.
    """
    rows: list[Forecast] = []
    for testset in testsets:
        try:
            items = [judge_item(record) for record in read_source(workspace, testset)]
        except CareError as error:
            rows.append(Forecast("", testset, failure=str(error)))
            continue
        there = texts_there(items)
        for judge in judges:
            if testset not in workspace.testsets_of(judge):
                continue
            try:
                must_have_texts(workspace, judge, testset, there)
                row = _of(workspace, judge, testset, items)
            except CareError as error:
                row = Forecast(judge, testset, failure=str(error))
            if row.items or row.failure:
                rows.append(row)
    return rows


def texts_there(items: Iterable[Item | ItemRecord]) -> set[str]:
    """The texts of an item (``prompt``, ``response`` ...) that at least one of these has."""
    there = set[str]()
    for item in items:
        there |= {name for name in ITEM_TEXTS if name not in there and (getattr(item, name) or "").strip()}
    return there


def must_have_texts(workspace: Workspace, judge: str, testset: str, there: Collection[str]) -> None:
    """Refuse a judge whose template needs a text that no item of a test set has: it could be asked about none.

    Parameters
    ----------
    there : collection of str
        Of ``texts_there``.

    Raises
    ------
    JudgeError, InputError
        A text is lacking, or the template.
    """
    spec = effective_spec(workspace, judge, testset)
    if not spec.engine.needs.template:
        return
    template = engine_context(workspace).template(spec)
    if lacking := [name for name in template.needs if name not in there]:
        names = ", ".join(lacking)
        raise JudgeError(
            f"no item of {testset} has what template {template.name!r} needs: {names}; name the column of each under "
            "`columns` of the test set's source, or choose another template"
        )


def _of(workspace: Workspace, judge: str, testset: str, items: Sequence[Item]) -> Forecast:
    wanted = pending(workspace, workspace.parts, judge, testset)
    to_ask = [item for item in items if item.key not in wanted.settled]
    if wanted.spec.engine.needs.recordings:  # which are read from a file
        return Forecast(judge, testset, len(to_ask), seconds=0.0)
    settled = pending(workspace, workspace.probe_parts, judge, testset).settled
    probes = [judge_item(record) for record in probe_items(workspace, testset)]
    to_ask += [probe for probe in probes if probe.key not in settled]
    questions = len({item.text_key for item in to_ask})
    rate = _measured(workspace, judge)
    guess = (0.0, 0.0) if rate else _guessed(workspace, testset, wanted.spec, to_ask)
    tokens_in, tokens_out = (rate.tokens_in, rate.tokens_out) if rate else guess
    engine = wanted.spec.engine
    dollars = 0.0
    if isinstance(engine, OpenAIEngine):
        dollars = engine.cost(questions * tokens_in, questions * tokens_out)
    seconds = None
    if rate is not None:
        actors = workspace.pool.actors if engine.needs.model else 1  # an endpoint's time is that of all open requests
        seconds = questions * rate.seconds / actors
    tokens = questions * (tokens_in + tokens_out)
    return Forecast(judge, testset, len(to_ask), questions, tokens, dollars, seconds, rate is not None)


def _measured(workspace: Workspace, judge: str) -> _Rate | None:
    """Means over every test set that the judge has scored, under its present key or an earlier one."""
    columns = ("status", "latency_ms", "tokens_in", "tokens_out")
    rows = [
        row
        for testset in workspace.testsets_of(judge)
        for row in workspace.parts.read_scores(judge, testset, columns).to_pylist()
        if row["status"] == Status.OK and row["latency_ms"] is not None
    ]
    if not rows:
        return None
    milliseconds, tokens_in, tokens_out = (fmean(row[name] or 0.0 for row in rows) for name in columns[1:])
    return _Rate(milliseconds / 1000, tokens_in, tokens_out)


def _guessed(workspace: Workspace, testset: str, spec: JudgeSpec, items: Sequence[Item]) -> tuple[float, float]:
    """Tokens that a prompt and its answer take, from the length of some prompts; nothing for who reads no prompt."""
    engine = spec.engine
    if not isinstance(engine, LanguageModel) or not items:
        return 0.0, 0.0
    template = engine_context(workspace).template(spec)
    sample = items[:: max(1, len(items) // _SAMPLE)]
    characters = sum(len(template.render(item, spec.scale)) for item in sample) / len(sample)
    shown = 2 if template.pairwise and engine.orders == "both" else 1
    return shown * characters / _CHARACTERS_OF_A_TOKEN, shown * (engine.max_tokens if engine.scoring == "text" else 1.0)
