"""The engine of judges behind an OpenAI-compatible endpoint, with its rate limits, retries and costs.

Belongs here: requests and what can go wrong with them. Belongs elsewhere: prompts and scores (``prompted``).
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import tenacity

from care_ops.errors import JudgeError
from judges.engines.base import Ledger, SpendLimitError
from judges.engines.prompted import RAW_LIMIT, PromptAnswer, PromptedJudgeEngine
from judges.items import Item, Score, Status
from judges.parsing import parse_answer
from judges.prompts import Template
from judges.spec import JudgeSpec, OpenAIEngine

_LONGEST_PAUSE_S = 60.0
_MOST_LOGPROBS = 20
_NOT_ASKED = "not asked: the spend limit is reached"
_log = logging.getLogger(__name__)


class _TemporaryError(Exception):
    """A request failed in a way that may not happen again.

    Attributes
    ----------
    status : Status
        Status of the score if no attempt succeeds.
    raw : str
        What went wrong.
    pause : float or None
        Seconds that the endpoint asks its clients to wait.
    """

    def __init__(self, status: Status, raw: str, pause: float | None = None) -> None:
        super().__init__(raw)
        self.status, self.raw, self.pause = status, raw, pause


class _SpendLimitReachedError(Exception):
    """The next request might cost more than what is left of the spend limit."""


class OpenAIJudgeEngine(PromptedJudgeEngine):
    """Asks an endpoint, with several requests at the same time.

    Parameters
    ----------
    spec : JudgeSpec
    engine : OpenAIEngine
        The engine settings of ``spec``.
    template : Template
    ledger : Ledger, optional
        What the judge has spent in this run already.

    Raises
    ------
    JudgeError
        The environment variable of the API key is not set, or there is a spend limit without prices. ``score`` raises
        it too, if the endpoint refuses the key or does not know the model.
    """

    def __init__(self, spec: JudgeSpec, engine: OpenAIEngine, template: Template, ledger: Ledger | None = None) -> None:
        super().__init__(spec, engine, template)
        self._name, self._engine = spec.name, engine
        self._ledger = ledger or Ledger()
        self._reserved = 0.0
        self._money = threading.Lock()
        self._next_start = 0.0
        self._gate = threading.Lock()
        self._key = ""
        if self._engine.api_key_env is not None:
            self._key = os.environ.get(self._engine.api_key_env, "")
            if not self._key:
                raise JudgeError(
                    f"judge {spec.name!r}: the environment variable {self._engine.api_key_env} is not set; set it to "
                    "the endpoint's key, or write api_key_env: null if it needs none"
                )
        if engine.lacks_prices:
            raise JudgeError(
                f"judge {spec.name!r} has a spend_limit, which cannot be kept without prices; set price_in and "
                "price_out in its engine to the vendor's, in US dollars per million tokens, or remove spend_limit"
            )
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = httpx.Client(
            base_url=self._engine.base_url.rstrip("/"), headers=headers, timeout=self._engine.timeout_s
        )
        self._limit_reached = False
        self.version = f"openai {self._engine.model}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Score each item, as every engine does.

        Raises
        ------
        SpendLimitError
            The spend limit is reached; the error carries the scores that were paid for.
        """
        self._limit_reached = False
        scores = super().score(items)
        if self._limit_reached:
            paid = [s for s in scores if s.raw != _NOT_ASKED]
            raise SpendLimitError(
                f"judge {self._name!r}: {self._ledger.spent:.4f} of {self._engine.spend_limit} US dollars are "
                "spent, and the next request might cost more than is left; the answers so far are kept, and the next "
                "run continues from there",
                paid,
            )
        return scores

    def ask(self, prompts: Sequence[str]) -> list[PromptAnswer]:
        with ThreadPoolExecutor(self._engine.concurrency) as pool:
            return list(pool.map(self._one, prompts))

    def _one(self, prompt: str) -> PromptAnswer:
        """Ask about one prompt, and again after failures that may be temporary."""
        text = f"{prompt}\n\nAnswer with nothing but what belongs after {self._template.marker!r}."
        worst = self._price(len(text.encode()) + 64, self._engine.max_tokens)
        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._engine.retries + 1),
            wait=self._pause,
            retry=tenacity.retry_if_exception_type(_TemporaryError),
            before_sleep=self._log_retry,
            reraise=True,
        )
        try:
            return retry(self._request, text, worst)
        except _TemporaryError as error:
            _log.info("Judge %r: no answer after all retries (%s).", self._name, self._without_key(error.raw))
            return PromptAnswer(None, error.status, self._without_key(error.raw))
        except _SpendLimitReachedError:
            return PromptAnswer(None, Status.ENGINE_ERROR, _NOT_ASKED)

    def _request(self, text: str, worst: float) -> PromptAnswer:
        """Send one request; ``worst`` is the most that it can cost, in US dollars."""
        self._reserve(worst)
        cost = 0.0
        try:
            self._wait_for_turn()
            body: dict[str, Any] = {
                "model": self._engine.model,
                "messages": [{"role": "user", "content": text}],
                "max_tokens": self._engine.max_tokens,
                "temperature": 0,
            }
            if self._engine.scoring != "text":
                body |= {"logprobs": True, "top_logprobs": _MOST_LOGPROBS}
            try:
                response = self._client.post("/chat/completions", json=body)
            except httpx.TimeoutException as error:
                cost = worst  # the endpoint may charge for a request that it did not answer in time
                raise _TemporaryError(Status.TIMEOUT, f"no answer within {self._engine.timeout_s:g} s") from error
            except httpx.HTTPError as error:
                raise _TemporaryError(Status.ENGINE_ERROR, f"{type(error).__name__}: {error}") from error
            data = self._checked(response)
            cost = self._cost(data, worst)
            return self._answer(data)
        finally:
            with self._money:
                self._reserved -= worst
                self._ledger.spent += cost

    def _checked(self, response: httpx.Response) -> dict[str, Any]:
        """The response's JSON object.

        Raises
        ------
        _TemporaryError
            The endpoint is overloaded, fails, or sends something that is no JSON object.
        JudgeError
            The endpoint refuses the key or does not know the model.
        """
        code = response.status_code
        if code == 429 or code >= 500:
            after = response.headers.get("retry-after", "")
            pause = float(after) if after.replace(".", "", 1).isdigit() else None
            raise _TemporaryError(Status.ENGINE_ERROR, f"HTTP {code}: {response.text[:200]}", pause)
        if code in (401, 403, 404):
            raise JudgeError(
                self._without_key(
                    f"judge {self._name!r}: the endpoint answers HTTP {code} for model {self._engine.model!r} "
                    f"({response.text[:200]}); check base_url, model and the key"
                )
            )
        try:
            data = response.json()
        except ValueError as error:
            raise _TemporaryError(Status.ENGINE_ERROR, f"not valid JSON: {response.text[:200]}") from error
        if not isinstance(data, dict):
            raise _TemporaryError(Status.ENGINE_ERROR, f"not an object: {response.text[:200]}")
        return data

    def _answer(self, data: dict[str, Any]) -> PromptAnswer:
        """The answer in a response's JSON object."""
        if data.get("error") or not data.get("choices"):
            return self._refused_request(data.get("error"))
        answered_by = str(data.get("model") or self._engine.model)
        if not answered_by.startswith(self._engine.model):
            return PromptAnswer(None, Status.ENGINE_ERROR, f"asked for {self._engine.model}, {answered_by} answered")
        self.version = f"openai {answered_by}"
        choice = data["choices"][0]
        message = choice.get("message") or {}
        usage = data.get("usage") or {}
        counts = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        if message.get("refusal") or choice.get("finish_reason") == "content_filter":
            refusal = str(message.get("refusal") or "content filter")
            return PromptAnswer(None, Status.REFUSED, self._without_key(refusal))
        text = message.get("content")
        if self._engine.scoring != "text":
            probabilities = self._probabilities(choice, text)
            if probabilities is not None:
                return self.answer_from(probabilities, *counts)
        score, status = parse_answer(text, self._answers, self._template.marker)
        raw = None if text is None else str(text)
        return PromptAnswer(score, status, raw, tokens_in=counts[0], tokens_out=counts[1])

    def _refused_request(self, error: Any) -> PromptAnswer:
        """The answer where the endpoint sends an error, or no choice, instead of one."""
        message = str(error.get("message") if isinstance(error, dict) else error or "no choices")
        too_long = "context" in message and ("length" in message or "maximum" in message)
        return PromptAnswer(None, Status.TOO_LONG if too_long else Status.ENGINE_ERROR, self._without_key(message))

    def _probabilities(self, choice: dict[str, Any], text: str | None) -> dict[str, float] | None:
        """Probability of each answer by its first token; None if the endpoint's log probabilities cannot be used."""
        try:
            tokens = choice["logprobs"]["content"]
            first = tokens[0]
            pairs = [(str(t["token"]).strip().lower(), float(t["logprob"])) for t in first["top_logprobs"]]
            written = str(first["token"]).strip().lower()
            following = str(tokens[1]["token"]) if len(tokens) > 1 else ""
        except (KeyError, IndexError, TypeError, ValueError):
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

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """Seconds until the next attempt: a growing random pause, and at least what the endpoint asks for."""
        error = state.outcome.exception() if state.outcome else None
        requested = error.pause if isinstance(error, _TemporaryError) else None
        backoff = tenacity.wait_random_exponential(multiplier=0.5, max=_LONGEST_PAUSE_S)(state)
        return min(max(requested or 0.0, backoff), _LONGEST_PAUSE_S)

    def _log_retry(self, state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        _log.info(
            "Judge %r: attempt %d of %d failed (%s); the next one follows in %.1f s.",
            self._name,
            state.attempt_number,
            self._engine.retries + 1,
            self._without_key(str(error)),
            state.upcoming_sleep,
        )

    def _wait_for_turn(self) -> None:
        """Wait until the rate limit allows another request to start."""
        if self._engine.requests_per_minute is None:
            return
        with self._gate:
            start = max(time.monotonic(), self._next_start)
            self._next_start = start + 60.0 / self._engine.requests_per_minute
        time.sleep(max(0.0, start - time.monotonic()))

    def _reserve(self, worst: float) -> None:
        """Reserve what a request can cost at most.

        A token has at least one byte, so ``worst``, which counts bytes, is never too little.

        Raises
        ------
        _SpendLimitReachedError
            The spend limit leaves less than ``worst``.
        """
        with self._money:
            limit = self._engine.spend_limit
            if limit is not None and self._ledger.spent + self._reserved + worst > limit:
                self._limit_reached = True
                raise _SpendLimitReachedError
            self._reserved += worst

    def _price(self, tokens_in: int, tokens_out: int) -> float:
        """Price of this many tokens, in US dollars; 0 if it is not known, and then there is no spend limit."""
        return self._engine.cost(tokens_in, tokens_out) or 0.0

    def _cost(self, data: dict[str, Any], worst: float) -> float:
        """What a request cost by its response, in US dollars; ``worst`` if the response does not say."""
        usage = data.get("usage")
        if not isinstance(usage, dict):
            return worst
        return self._price(int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0))

    def _without_key(self, text: str) -> str:
        """A message of the endpoint in which the API key, should it occur, is replaced."""
        return (text.replace(self._key, "***") if self._key else text)[:RAW_LIMIT]
