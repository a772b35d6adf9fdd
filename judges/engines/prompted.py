"""What all engines that ask a language model share: one prompt an item, two for a pair, and the score that follows.

Belongs here: items to prompts, answers to scores. Does not: getting an answer (``model``, ``openai``).
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from judges import scoring
from judges.items import Item, Score, Status
from judges.prompts import Template
from judges.spec import JudgeSpec, LanguageModel

RAW_LIMIT = 500


@dataclass(frozen=True)
class Answer:
    """What came back for one prompt; the fields are those of ``Score``."""

    score: float | None
    status: Status
    raw: str | None = None
    probabilities: dict[str, float] | None = None
    valid_mass: float | None = None
    tokens_in: int = 0
    tokens_out: int = 0


class PromptedJudgeEngine(ABC):
    """Renders prompts, asks each different one once, and combines the two orders of a pair.

    Parameters
    ----------
    spec : JudgeSpec
    engine : LanguageModel
        That of ``spec``.
    template : Template
    """

    version: str

    def __init__(self, spec: JudgeSpec, engine: LanguageModel, template: Template) -> None:
        self._settings, self._template = engine, template
        self._answers = template.answers(spec.scale)
        self._scale = spec.scale

    @abstractmethod
    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        """An answer to each prompt, in order; the prompts are all different."""

    def score(self, items: Sequence[Item]) -> list[Score]:
        """One score an item; pairs are shown both ways unless the judge says otherwise."""
        started = time.perf_counter()
        both = self._template.pairwise and self._settings.orders == "both"
        prompts: list[str | None] = []
        for item in items:
            lacking = self._template.missing(item)
            shown = [item, _swapped(item)] if both else [item]
            prompts += [None if lacking else self._template.render(one, self._scale) for one in shown]
        distinct = list(dict.fromkeys(p for p in prompts if p is not None))
        found = dict(zip(distinct, self.ask(distinct), strict=True))
        answers = [None if p is None else found[p] for p in prompts]
        per_item = 1e3 * (time.perf_counter() - started) / max(len(items), 1)
        step = 2 if both else 1
        return [self._combined(item, answers[k * step : (k + 1) * step], per_item) for k, item in enumerate(items)]

    def close(self) -> None:  # noqa: B027  (a default, not a duty)
        """Nothing to end: a model's memory goes with its process."""

    def _combined(self, item: Item, answers: Sequence[Answer | None], latency: float) -> Score:
        first = answers[0]
        if first is None:
            lacking = ", ".join(self._template.missing(item))
            return Score(
                item.item_id, item.key, None, Status.REFUSED, f"template {self._template.name} needs {lacking}", latency
            )
        parts = [a for a in answers if a is not None]
        bad = next((a for a in parts if a.status is not Status.OK), None)
        score, status, raw = first.score, first.status, first.raw
        if bad is not None:
            score, status, raw = None, bad.status, bad.raw
        elif len(parts) == 2:
            assert parts[0].score is not None
            assert parts[1].score is not None
            score = (parts[0].score - parts[1].score) / 2
        dumped = [a.probabilities for a in parts]
        p_json = None
        if all(p is not None for p in dumped):
            rounded = [{k: round(v, 6) for k, v in (p or {}).items() if v >= 1e-6} for p in dumped]
            p_json = json.dumps(rounded[0] if len(rounded) == 1 else {"ab": rounded[0], "ba": rounded[1]})
        masses = [a.valid_mass for a in parts if a.valid_mass is not None]
        return Score(
            item.item_id,
            item.key,
            score,
            status,
            raw[:RAW_LIMIT] if raw else None,
            latency,
            p_json=p_json,
            valid_mass=min(masses) if masses else None,
            order="both" if len(parts) == 2 else None,
            tokens_in=sum(a.tokens_in for a in parts),
            tokens_out=sum(a.tokens_out for a in parts),
        )

    def reading(self, probabilities: dict[str, float], tokens_in: int, tokens_out: int) -> Answer:
        """The answer that the legal answers' probabilities give."""
        reading = scoring.read(probabilities, self._answers)
        score: float | None = reading.expected if self._settings.scoring == "expected" else reading.mode
        status, raw, least = Status.OK, None, self._settings.min_valid_mass
        if math.isnan(reading.expected) or reading.valid_mass < least:
            score, status = None, Status.LOW_VALID_MASS
            raw = f"{reading.valid_mass:.3f} of the probability is on legal answers, {least} asked"
        return Answer(score, status, raw, probabilities, reading.valid_mass, tokens_in, tokens_out)


def _swapped(item: Item) -> Item:
    return Item(item.item_id, item.prompt, item.response_2, item.response, item.reference, item.aspect)
