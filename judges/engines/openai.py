"""Engine that sends prompts to an OpenAI-compatible endpoint, with retries and cost records."""

import hashlib
import logging
import math
import re
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from care_ops.errors import JudgeError, sentence
from judges.bill import Bill, Ledger, Purse
from judges.engines.base import Context, StoppedError
from judges.engines.dialect import LEARNABLE, Dialect
from judges.engines.endpoint import Choice, Completion, Endpoint, LateError, NoAnswerError, Reply, Usage
from judges.engines.pace import LONGEST_WAIT_S, Pace, backoff, seconds
from judges.engines.prompted import PromptAnswer, PromptedJudgeEngine
from judges.items import RAW_LIMIT, Item, Score, Status
from judges.prices import Price
from judges.redaction import unrepeated
from judges.spec import JudgeSpec, OpenAIEngine

NOT_ASKED = "not asked"
_TOO_LONG = re.compile(
    r"context.{0,40}(length|window|maximum)|maximum context|too (long|large)|token count.*exceeds", re.I
)
_FILTERED = re.compile(r"content.?(filter|management|policy)|safety", re.I)
_log = logging.getLogger(__name__)


class TemporaryError(Exception):
    """Error of a request that may succeed if it is retried; ``status`` is the score's status if all retries fail."""

    def __init__(self, status: Status, raw: str, *, too_fast: bool = False) -> None:
        super().__init__(raw)
        self.status, self.raw, self.too_fast = status, raw, too_fast


class NotAskedError(Exception):
    """Error raised when a request is not sent, because the judge stopped or a spend limit might be exceeded."""


class RefusedError(Exception):
    """Error raised when the endpoint refused a parameter; a retry without the parameter is possible."""


class CutOffError(Exception):
    """Error raised when a model reached its token limit before it answered; ``answer`` has the status and reason."""

    def __init__(self, answer: PromptAnswer, body: dict[str, Any]) -> None:
        super().__init__(answer.raw)
        self.answer, self.body = answer, body


class OpenAIJudgeEngine(PromptedJudgeEngine):
    """Engine that sends prompts to an endpoint; several threads may call ``score`` at the same time.

    Parameters
    ----------
    engine : OpenAIEngine
        Engine settings of the judge ``spec``.

    Raises
    ------
    JudgeError
        If the environment variable of the API key is not set, or the judge has a spend limit but no prices.
    """

    def __init__(self, spec: JudgeSpec, engine: OpenAIEngine, context: Context) -> None:
        super().__init__(spec, engine, context.template(spec))
        self._name, self._engine = spec.name, engine
        self._ledger = ledger = context.ledger or Ledger()
        own = engine.spend_limit
        before = ledger.total.dollars, ledger.total.unknown + ledger.sent
        self._purses = ledger.purses + (() if own is None else (Purse(own, "spend_limit in its file", *before),))
        price = engine.price
        if price is None and self._purses:
            raise JudgeError(
                f"judge {spec.name!r} has a spend_limit but no prices, so CARE cannot enforce the limit; set price_in "
                "and price_out in its engine (US dollars per million tokens, 0 if the model is free), or remove "
                "spend_limit"
            )
        self._price = price or Price(0.0, 0.0, 0.0, "")
        self._endpoint = Endpoint(spec.name, engine)
        self._shown_name = lru_cache(64)(self._endpoint.secrets.name)  # the name is the same in nearly every answer
        place = hashlib.sha256(f"{engine.base_url} {engine.model}".encode()).hexdigest()[:16]
        learned = context.learned and context.learned / f"{place}.json"
        self._dialect = Dialect(engine, learned)
        self._silence = threading.Lock()
        self._pace = Pace(engine)
        self._empty: Purse | None = None
        self._stopped = ""
        self._answered_by = set[str]()
        self._warned = False
        self.version = f"openai {engine.model}"

    def close(self) -> None:
        self._stop("the judge was closed")
        self._endpoint.close()

    def stop(self) -> None:
        """Send no more requests, but still read the answers to open requests; any thread may call this method."""
        self._stop("the run was interrupted, and all scores so far are stored; run again to continue")

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Return one score for each item.

        Raises ``StoppedError`` if the spend limit is reached, or the endpoint refuses every request because of the API
        key, the model or a parameter. The error contains the scores that were already paid for.
        """
        scores = super().score(items)
        paid = [score for score in scores if score.raw != NOT_ASKED]
        if self._stopped or len(paid) < len(scores):
            self.raise_if_stopped(paid)
        return scores

    def raise_if_stopped(self, paid: Sequence[Score] = ()) -> None:
        """Raise ``StoppedError`` with the ``paid`` scores if no more requests can be sent."""
        if self._stopped:
            raise StoppedError(f"judge {self._name!r}: {self._stopped}", paid)
        if self._empty is not None:
            raise StoppedError(
                f"judge {self._name!r} stopped: {self._empty}, and the next request might exceed the limit. CARE has "
                "stored all scores so far. Raise the limit or run again later to continue",
                paid,
            )

    def ask(self, prompts: Sequence[str]) -> list[PromptAnswer]:
        return [self.ask_one(prompt) for prompt in prompts]

    def _stop(self, why: str) -> None:
        self._stopped = self._stopped or sentence(why)
        self._pace.stop()

    def text_of(self, prompt: str) -> str:
        """Append an instruction about the answer's format to a prompt."""
        return f"{prompt}\n\nAnswer with nothing but what belongs after {self._template.marker!r}."

    def ask_one(self, prompt: str) -> PromptAnswer:
        """Send one prompt, with retries, and return the answer."""
        text = self.text_of(prompt)
        failed = fast = 0
        cut: PromptAnswer | None = None
        repeated = False
        while True:
            try:
                answer = self._request(text, repeated=repeated)
                return answer if cut is None else _together(cut, answer)
            except NotAskedError:
                return cut or PromptAnswer(None, Status.ENGINE_ERROR, NOT_ASKED)
            except RefusedError:
                pass
            except CutOffError as error:
                if cut is not None or not self._dialect.make_room(error.body):
                    return error.answer if cut is None else _together(cut, error.answer)
                cut = error.answer
            except TemporaryError as error:
                warns = not (error.too_fast or self._answered_by) and self._silence.acquire(blocking=False)  # only once
                level = logging.WARNING if warns else logging.INFO
                failed, fast = failed + (not error.too_fast), fast + error.too_fast
                if failed > self._engine.retries or fast > 2 * self._engine.retries:
                    _log.log(level, "Judge %r: a request failed after all retries (%s).", self._name, error.raw)
                    failure = PromptAnswer(None, error.status, error.raw)
                    return failure if cut is None else _together(cut, failure)
                pause = 0.0 if error.too_fast else backoff(failed)
                _log.log(
                    level,
                    "Judge %r: attempt %d failed (%s); CARE waits at least %.1f s before it retries.",
                    *(self._name, failed + fast, error.raw, pause),
                )
                self._pace.rest(pause)
            repeated = True

    def _request(self, text: str, *, repeated: bool) -> PromptAnswer:
        size = len(text.encode("utf-8", "surrogatepass"))
        with self._pace.turn() as started:
            body = self._dialect.body(text)
            with self._paid(self._worst(self._price, size, body)) as bill:
                bill.repeated = int(repeated)
                sent = time.perf_counter()
                try:
                    reply = self._endpoint.post(body)
                    if reply.failed:
                        bill.unknown, bill.refused = 0.0, int(reply.status in (429, 529))
                        return self._refused(reply, body, started)
                    completion = reply.completion()
                except NoAnswerError as error:
                    bill.unknown *= error.sent
                    status = Status.TIMEOUT if isinstance(error, LateError) else Status.ENGINE_ERROR
                    raise TemporaryError(status, self._hidden(str(error), body)) from error
                usage = completion.usage
                bill.answered(1e3 * (time.perf_counter() - sent))
                if usage is not None:
                    bill.add(paid_for(usage, self._price))
                    bill.unknown = 0.0
                self._pace.answered()
                self._dialect.tried = True
                return self._answer(completion, body)

    def _refused(self, reply: Reply, body: dict[str, Any], started: float) -> PromptAnswer:
        """Convert an endpoint's error to an answer with a status, or raise an exception.

        Raises ``TemporaryError`` if the endpoint is overloaded or fails, and ``RefusedError`` if it refuses a parameter
        that can be omitted. If the endpoint will refuse every request, the judge stops and ``NotAskedError`` is raised.
        """
        code, message = reply.status, str(reply.error["message"])
        full, shown = self._hidden(message), self._hidden(message, body)
        kind = f"{reply.error.get('code')} {reply.error.get('type')}"
        remedy = "correct base_url, model, the API key or another setting in the judge's file"
        pause = seconds(reply.headers.get("retry-after", ""))
        if pause is not None and pause > LONGEST_WAIT_S:
            remedy = f"the endpoint requests a pause; run again after {pause:,.0f} s"
        elif (code in (429, 529) and "insufficient_quota" not in kind) or (code == 503 and pause is not None):
            if pause is not None and pause > 1:
                _log.info("Judge %r: the endpoint requests a pause of %.0f s (%s).", self._name, pause, shown)
            self._pace.too_fast(started, pause)
            raise TemporaryError(Status.ENGINE_ERROR, f"HTTP {code}: {shown}", too_fast=True)
        elif code in (408, 409, 425) or code >= 500:
            raise TemporaryError(Status.ENGINE_ERROR, f"HTTP {code}: {shown}")
        elif code in (200, 400, 413, 422):
            named = named if isinstance(named := reply.error.get("param"), str) and named else None
            if code == 413 or (named not in LEARNABLE and _TOO_LONG.search(f"{kind} {full}")):
                return PromptAnswer(None, Status.TOO_LONG, shown)
            if _FILTERED.search(kind) or (code != 200 and _FILTERED.search(full)):
                return PromptAnswer(None, Status.REFUSED, shown)
            if code == 200:
                return PromptAnswer(None, Status.ENGINE_ERROR, shown)
            if self._dialect.learn(body, named, str(reply.error["message"])):
                raise RefusedError
        self._stop(f"the endpoint returned HTTP {code} for model {self._engine.model!r} ({shown}); {remedy}")
        raise NotAskedError

    def _answer(self, completion: Completion, body: dict[str, Any]) -> PromptAnswer:
        name = self._shown_name(completion.model or self._engine.model)
        usage, choice = completion.usage, completion.choices[0]
        counts = (usage.prompt_tokens, usage.written) if usage else (0, 0)
        pinned = self._engine.model_must_be
        if pinned not in (None, name):
            reason = f"{name} answered, but model_must_be is {pinned}"
            return PromptAnswer(None, Status.ENGINE_ERROR, reason, None, None, *counts)
        self._answered_by.add(name)
        self.version = f"openai {', '.join(sorted(self._answered_by.copy()))}"
        content = choice.message.content
        if choice.message.refusal or choice.finish_reason == "content_filter":
            reason = self._hidden(choice.message.refusal or "content filter", body)
            return PromptAnswer(None, Status.REFUSED, reason, None, None, *counts)
        thinks = content is not None and content.lstrip().startswith("<think>")
        text = content.partition("</think>")[2] if content is not None and thinks else content
        written = (text or "").strip()
        if choice.finish_reason in ("length", "max_tokens") and not written:
            reason = f"the model used all of its {counts[1]:,} tokens before it answered; raise max_tokens"
            raise CutOffError(PromptAnswer(None, Status.CUT_OFF, reason, None, None, *counts), body)
        if self._engine.scoring != "text":
            probabilities = self._probabilities(choice, content)
            if probabilities is not None:
                return self.answer_from(probabilities, *counts)
            if choice.logprobs is None and not self._warned:
                self._warned = True
                _log.warning(
                    "Judge %r: the endpoint returns no log probabilities; CARE parses the model's text.", self._name
                )
        return self.answer_in(text, None if text is None else self._hidden(text, limit=RAW_LIMIT), counts)

    def _probabilities(self, choice: Choice, text: str | None) -> dict[str, float] | None:
        """Return the probability of each allowed answer as the first token; None if the probabilities are unusable."""
        try:
            tokens = choice.logprobs["content"]
            first = tokens[0]
            pairs = [(str(t["token"]).strip().lower(), float(t["logprob"])) for t in first["top_logprobs"]]
            written = str(first["token"]).strip().lower()
            following = str(tokens[1]["token"]) if len(tokens) > 1 else ""
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):
            return None
        masses = [math.exp(p) for _, p in pairs if p <= 1e-6]
        contradicts_text = not (text or "").strip().lower().startswith(written)
        broken = len(masses) != len(pairs) or sum(masses) > 1.001 or contradicts_text
        in_several_tokens = written in self._answers and following[:1].isdigit()
        if broken or in_several_tokens or not any(token in self._answers for token, _ in pairs):
            return None
        probabilities = dict.fromkeys(self._answers, 0.0)
        for token, logprob in pairs:
            if token in probabilities:
                probabilities[token] += math.exp(logprob)
        return probabilities

    @contextmanager
    def _paid(self, worst: float) -> Generator[Bill]:
        self._reserve(worst)
        bill = Bill(requests=1, unknown=worst, settled=worst)
        try:
            self._ledger.reserve(worst)
            yield bill
        finally:
            for purse in self._purses:
                purse.settle(worst, bill.dollars, bill.unknown)
            self._ledger.add(bill)

    @staticmethod
    def _worst(price: Price, size: int, body: dict[str, Any]) -> float:
        """Return the maximum cost of a request, assuming one token for each of the ``size`` bytes of text."""
        written = next((body[name] for name in ("max_completion_tokens", "max_tokens") if name in body), 4096)
        return price.of(size + 64, written if isinstance(written, int) else 4096)

    def _reserve(self, worst: float) -> None:
        if self._stopped:
            raise NotAskedError
        for place, purse in enumerate(self._purses):
            if not purse.reserve(worst):
                for other in self._purses[:place]:
                    other.settle(worst, 0.0)
                self._empty = purse
                raise NotAskedError

    def _hidden(self, text: str, body: Mapping[str, Any] | None = None, limit: int = 200) -> str:
        """Shorten an endpoint's message; remove secrets and passages copied from the prompt."""
        shown = self._endpoint.secrets.hide(text, limit)
        return unrepeated(shown, body["messages"][0]["content"]) if body and "messages" in body else shown


def paid_for(usage: Usage, price: Price) -> Bill:
    """Compute the cost record of an answer from the answer's token counts."""
    return Bill(
        tokens_in=usage.prompt_tokens,
        tokens_cached=usage.cached,
        tokens_out=usage.written,
        tokens_reasoning=usage.reasoning,
        dollars=price.of(usage.prompt_tokens, usage.written, usage.cached),
    )


def _together(cut: PromptAnswer, answer: PromptAnswer) -> PromptAnswer:
    tokens_in, tokens_out = cut.tokens_in + answer.tokens_in, cut.tokens_out + answer.tokens_out
    return replace(answer, tokens_in=tokens_in, tokens_out=tokens_out)
