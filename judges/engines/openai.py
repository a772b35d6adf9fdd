"""Judges behind an OpenAI-compatible endpoint: rate limits, retries, cost.

Belongs here: requests and what can go wrong with them. Does not: prompts and scores (``prompted``).
"""

from __future__ import annotations

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
from judges.engines.prompted import RAW_LIMIT, Answer, PromptedJudgeEngine
from judges.items import Item, Score, Status
from judges.parsing import parse_answer
from judges.prompts import Template
from judges.spec import JudgeSpec, OpenAIEngine

_LONGEST_PAUSE_S = 60.0
_MOST_LOGPROBS = 20


class _Again(Exception):  # noqa: N818
    """A request that may succeed another time."""

    def __init__(self, status: Status, raw: str, pause: float | None = None) -> None:
        super().__init__(raw)
        self.status, self.raw, self.pause = status, raw, pause


class _NoMoneyLeft(Exception):  # noqa: N818
    """The next request might cost more than there is left."""


class OpenAIJudgeEngine(PromptedJudgeEngine):
    """Asks an endpoint, several requests at once.

    Parameters
    ----------
    spec : JudgeSpec
    engine : OpenAIEngine
        That of ``spec``.
    template : Template
    ledger : Ledger, optional
        What this run has spent already.

    Raises
    ------
    JudgeError
        The environment variable of the key is not set, or the endpoint refuses the key or does not know the model.
    SpendLimitError
        By ``score``; what was answered before comes with it.
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
                    "the endpoint's key, or say api_key_env: null"
                )
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = httpx.Client(
            base_url=self._engine.base_url.rstrip("/"), headers=headers, timeout=self._engine.timeout_s
        )
        self._broke = False
        self.version = f"openai {self._engine.model}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def score(self, items: Sequence[Item]) -> list[Score]:
        """As every engine; raises ``SpendLimitError`` where the limit is reached."""
        self._broke = False
        scores = super().score(items)
        if self._broke:
            paid = [s for s in scores if s.raw != _UNPAID]
            raise SpendLimitError(
                f"judge {self._name!r}: {self._ledger.spent:.4f} of {self._engine.spend_limit} US dollars are "
                "spent, the next request might cost more than is left; what was answered is kept, the next run goes on",
                paid,
            )
        return scores

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        with ThreadPoolExecutor(self._engine.concurrency) as pool:
            return list(pool.map(self._one, prompts))

    def _one(self, prompt: str) -> Answer:
        text = f"{prompt}\n\nAnswer with nothing but what belongs after {self._template.marker!r}."
        worst = self._price(len(text.encode()) + 64, self._engine.max_tokens)
        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._engine.retries + 1),
            wait=self._pause,
            retry=tenacity.retry_if_exception_type(_Again),
            reraise=True,
        )
        try:
            return retry(self._request, text, worst)
        except _Again as error:
            return Answer(None, error.status, self._hidden(error.raw))
        except _NoMoneyLeft:
            return Answer(None, Status.ENGINE_ERROR, _UNPAID)

    def _request(self, text: str, worst: float) -> Answer:
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
                cost = worst  # it may be charged all the same
                raise _Again(Status.TIMEOUT, f"no answer within {self._engine.timeout_s:g} s") from error
            except httpx.HTTPError as error:
                raise _Again(Status.ENGINE_ERROR, f"{type(error).__name__}: {error}") from error
            data = self._checked(response)
            cost = self._cost(data, worst)
            return self._answer(data)
        finally:
            with self._money:
                self._reserved -= worst
                self._ledger.spent += cost

    def _checked(self, response: httpx.Response) -> dict[str, Any]:
        """The response's JSON; statuses that may pass are ``_Again``, others end the judge."""
        code = response.status_code
        if code == 429 or code >= 500:
            after = response.headers.get("retry-after", "")
            pause = float(after) if after.replace(".", "", 1).isdigit() else None
            raise _Again(Status.ENGINE_ERROR, f"HTTP {code}: {response.text[:200]}", pause)
        if code in (401, 403, 404):
            raise JudgeError(
                self._hidden(
                    f"judge {self._name!r}: the endpoint answers HTTP {code} for model {self._engine.model!r} "
                    f"({response.text[:200]}); check base_url, model and the key"
                )
            )
        try:
            data = response.json()
        except ValueError as error:
            raise _Again(Status.ENGINE_ERROR, f"not valid JSON: {response.text[:200]}") from error
        if not isinstance(data, dict):
            raise _Again(Status.ENGINE_ERROR, f"not an object: {response.text[:200]}")
        return data

    def _answer(self, data: dict[str, Any]) -> Answer:
        error = data.get("error")
        if error or not data.get("choices"):
            message = str(error.get("message") if isinstance(error, dict) else error or "no choices")
            long = "context" in message and ("length" in message or "maximum" in message)
            return Answer(None, Status.TOO_LONG if long else Status.ENGINE_ERROR, self._hidden(message))
        answered_by = str(data.get("model") or self._engine.model)
        if not answered_by.startswith(self._engine.model):
            return Answer(None, Status.ENGINE_ERROR, f"asked for {self._engine.model}, {answered_by} answered")
        self.version = f"openai {answered_by}"
        choice = data["choices"][0]
        message = choice.get("message") or {}
        usage = data.get("usage") or {}
        counts = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        if message.get("refusal") or choice.get("finish_reason") == "content_filter":
            return Answer(None, Status.REFUSED, self._hidden(str(message.get("refusal") or "content filter")))
        text = message.get("content")
        if self._engine.scoring != "text":
            probabilities = self._probabilities(choice, text)
            if probabilities is not None:
                return self.reading(probabilities, *counts)
        score, status = parse_answer(text, self._answers, self._template.marker)
        return Answer(score, status, None if text is None else str(text), tokens_in=counts[0], tokens_out=counts[1])

    def _probabilities(self, choice: dict[str, Any], text: str | None) -> dict[str, float] | None:
        """Probability of each answer by the first token; None where the endpoint's log probabilities cannot be used."""
        try:
            tokens = choice["logprobs"]["content"]
            first = tokens[0]
            pairs = [(str(t["token"]).strip().lower(), float(t["logprob"])) for t in first["top_logprobs"]]
            said = str(first["token"]).strip().lower()
            following = str(tokens[1]["token"]) if len(tokens) > 1 else ""
        except (KeyError, IndexError, TypeError, ValueError):
            return None
        masses = [math.exp(p) for _, p in pairs if p <= 1e-6]
        broken = len(masses) != len(pairs) or sum(masses) > 1.001 or not (text or "").strip().lower().startswith(said)
        in_several_tokens = said in self._answers and following[:1].isdigit()
        if broken or in_several_tokens or not any(token in self._answers for token, _ in pairs):
            return None
        found = dict.fromkeys(self._answers, 0.0)
        for token, logprob in pairs:
            if token in found:
                found[token] += math.exp(logprob)
        return found

    def _pause(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.pause if isinstance(error, _Again) else None
        backoff = tenacity.wait_random_exponential(multiplier=0.5, max=_LONGEST_PAUSE_S)(state)
        return min(max(asked or 0.0, backoff), _LONGEST_PAUSE_S)

    def _wait_for_turn(self) -> None:
        if self._engine.requests_per_minute is None:
            return
        with self._gate:
            start = max(time.monotonic(), self._next_start)
            self._next_start = start + 60.0 / self._engine.requests_per_minute
        time.sleep(max(0.0, start - time.monotonic()))

    def _reserve(self, worst: float) -> None:
        """Set the money of a request aside; a token is a byte at least, so ``worst`` is never too little."""
        with self._money:
            limit = self._engine.spend_limit
            if limit is not None and self._ledger.spent + self._reserved + worst > limit:
                self._broke = True
                raise _NoMoneyLeft
            self._reserved += worst

    def _price(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self._engine.price_in + tokens_out * self._engine.price_out) / 1e6

    def _cost(self, data: dict[str, Any], worst: float) -> float:
        usage = data.get("usage")
        if not isinstance(usage, dict):
            return worst
        return self._price(int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0))

    def _hidden(self, text: str) -> str:
        """Without the key, should the endpoint have repeated it."""
        return (text.replace(self._key, "***") if self._key else text)[:RAW_LIMIT]


_UNPAID = "not asked: the spend limit is reached"
