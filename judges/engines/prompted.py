"""Base class of engines that send prompts to a language model."""

import json
import math
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from judges import scoring
from judges.engines.base import Engine
from judges.items import ONE, Item, Score, Status
from judges.parsing import parse_answer
from judges.prompts import Template
from judges.spec import JudgeSpec, LanguageModel, OpenAIEngine


@dataclass(frozen=True)
class PromptAnswer:
    """Answer to one prompt, with score, status, text, probabilities and token counts."""

    score: float | None
    status: Status
    raw: str | None = None
    probabilities: dict[str, float] | None = None
    valid_mass: float | None = None
    tokens_in: int = 0
    tokens_out: int = 0


class PromptedJudgeEngine(Engine):
    """Base class of engines that prompt a language model and combine all answers about an item into a score."""

    def __init__(self, spec: JudgeSpec, engine: LanguageModel, template: Template) -> None:
        self._settings, self._template = engine, template
        self._answers = template.answers(spec.scale)
        self._scale = spec.scale
        self._repeats = engine.repeats if isinstance(engine, OpenAIEngine) else 1
        self._last_end = 0.0

    @abstractmethod
    def ask(self, prompts: Sequence[str]) -> list[PromptAnswer]:
        """Return the answer to each prompt, in the same order; equal prompts are sent separately."""

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Return one score for each item; by default, show the two responses of a pair in both orders."""
        started = time.perf_counter()
        prompts = [(p, k) for shown in map(self.prompts, items) for k in range(self._repeats) for p in shown]
        distinct = list(dict.fromkeys((p, k) for p, k in prompts if p is not None))
        answer_of = dict(zip(distinct, self.ask([p for p, _ in distinct]), strict=True))
        answers = [None if p is None else answer_of[p, k] for p, k in prompts]
        now = time.perf_counter()  # each second of overlapping batches counts once
        per_item = 1e3 * max(0.0, now - max(started, self._last_end)) / max(len(items), 1)
        self._last_end = max(now, self._last_end)
        step = len(prompts) // max(len(items), 1)
        return [self._combined(item, answers[k * step : (k + 1) * step], per_item) for k, item in enumerate(items)]

    def prompts(self, item: Item) -> list[str | None]:
        """Return one prompt, or two for a pair in both orders; None replaces a prompt if a required text is missing."""
        both = self._template.pairwise and self._settings.orders == "both"
        missing = self._template.missing(item)
        shown = [item, replace(item, response=item.response_2, response_2=item.response)] if both else [item]
        return [None if missing else self._template.render(one, self._scale) for one in shown]

    def _combined(self, item: Item, answers: Sequence[PromptAnswer | None], latency: float) -> Score:
        first = answers[0]
        if first is None:
            missing = ", ".join(self._template.missing(item))
            raw = f"the judge's template needs {missing}, which the item lacks; add it to the test set"
            return Score(item.item_id, item.key, None, Status.REFUSED, raw, latency)
        given = [a for a in answers if a is not None]
        orders = len(given) // self._repeats
        repeats = [_of_orders(given[k : k + orders]) for k in range(0, len(given), orders)]
        with_score = [repeat for repeat in repeats if repeat is not None]
        score = sum(with_score) / len(with_score) if with_score else None
        shown = next((a for a in given if (a.status is Status.OK) == (score is not None)), first)
        status = Status.OK if score is not None else shown.status
        masses = [a.valid_mass for a in given if a.valid_mass is not None]
        return Score(
            item.item_id,
            item.key,
            score,
            status,
            shown.raw,
            latency,
            p_json=json.dumps({ONE: repeats}) if self._repeats > 1 else _probabilities_as_json(given),
            valid_mass=min(masses) if masses else None,
            order="both" if orders == 2 else None,
            tokens_in=sum(a.tokens_in for a in given),
            tokens_out=sum(a.tokens_out for a in given),
        )

    def answer_in(
        self, text: str | None, raw: str | None, tokens: tuple[int, int], *, first: bool = False
    ) -> PromptAnswer:
        """Parse the answer in a model's text; if ``first`` is true, use the first number (see ``parse_answer``)."""
        score, status = parse_answer(text, self._answers, self._template.marker, first=first)
        return PromptAnswer(score, status, raw, None, None, *tokens)

    def answer_from(self, probabilities: dict[str, float], tokens_in: int, tokens_out: int) -> PromptAnswer:
        """Compute the score from the probability of each allowed answer."""
        expected, mode, mass = scoring.summarise(probabilities, self._answers)
        score: float | None = expected if self._settings.scoring == "expected" else mode
        status, raw, minimum = Status.OK, None, self._settings.min_valid_mass
        if math.isnan(expected) or mass < minimum:
            score, status = None, Status.LOW_VALID_MASS
            raw = (
                f"the allowed answers have a total probability of {mass:.3f}, less than min_valid_mass: {minimum:g}; "
                "edit the prompt template, or set scoring: text"
            )
        return PromptAnswer(score, status, raw, probabilities, mass, tokens_in, tokens_out)


def _of_orders(answers: Sequence[PromptAnswer]) -> float | None:
    """Return the score of a single answer, or half the difference between the scores in the two orders of a pair."""
    scores = [answer.score for answer in answers]
    if None in scores:
        return None
    return scores[0] if len(scores) == 1 else ((scores[0] or 0.0) - (scores[1] or 0.0)) / 2


def _probabilities_as_json(answers: Sequence[PromptAnswer]) -> str | None:
    by_answer = [answer.probabilities for answer in answers]
    if any(probabilities is None for probabilities in by_answer):
        return None
    rounded = [{k: round(p, 6) for k, p in (probabilities or {}).items() if p >= 1e-6} for probabilities in by_answer]
    return json.dumps(rounded[0] if len(rounded) == 1 else {"ab": rounded[0], "ba": rounded[1]})
