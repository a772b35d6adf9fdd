"""Parameters that a model behind an endpoint takes, and the tokens that it needs to reason.

Some models refuse parameters that others require. The parameters are learned from refusals, which cost nothing, and are
kept in the workspace's data from run to run.
"""

from __future__ import annotations

import json
import os
import re
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judges.spec import OpenAIEngine

REASONING_TOKENS = 2_048
"""Tokens for reasoning, in addition to those of the answer, until an answer is cut off."""

_MOST_REASONING_TOKENS = 32_768
_LENGTHS = ("max_tokens", "max_completion_tokens")
LEARNABLE = (*_LENGTHS, "temperature", "top_logprobs", "logprobs")
"""Parameters that a request can omit."""


@dataclass(frozen=True)
class Dialect:
    """The parameters that a model takes.

    Attributes
    ----------
    refused : frozenset of str
        Parameters that it does not take.
    top_logprobs : int
        Number of likeliest tokens to ask for.
    reasoning : int
        Tokens for reasoning, in addition to those of the answer; 0 for a model that is not known to reason.
    """

    refused: frozenset[str] = field(default_factory=frozenset)
    top_logprobs: int = 20
    reasoning: int = 0

    def body(self, engine: OpenAIEngine, text: str) -> dict[str, Any]:
        """Build the request about one prompt."""
        body: dict[str, Any] = {"model": engine.model, "messages": [{"role": "user", "content": text}]}
        length = next((name for name in _LENGTHS if name not in self.refused), None)
        if length is not None:
            body[length] = engine.max_tokens + self.reasoning
        if "temperature" not in self.refused:
            body["temperature"] = 0
        if engine.scoring != "text" and "logprobs" not in self.refused:
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        if engine.reasoning_effort is not None:
            body["reasoning_effort"] = engine.reasoning_effort
        return body | engine.extra_body

    def without(self, parameter: str) -> Dialect:
        """Return a copy without a parameter that was refused."""
        if parameter == "top_logprobs" and self.top_logprobs > 5:
            return replace(self, top_logprobs=5)
        parameter = "logprobs" if parameter == "top_logprobs" else parameter
        tokens = REASONING_TOKENS if parameter == "max_tokens" else 0
        return replace(self, refused=self.refused | {parameter}, reasoning=max(self.reasoning, tokens))

    def with_more_reasoning(self) -> Dialect:
        """Return a copy with more tokens for reasoning."""
        tokens = self.reasoning * 4 if self.reasoning else 2 * REASONING_TOKENS
        return replace(self, reasoning=max(self.reasoning, min(tokens, _MOST_REASONING_TOKENS)))


class Knowledge:
    """The dialect of one model at one endpoint, shared by all requests and kept in a file if there is a path.

    A file that cannot be read is ignored.
    """

    def __init__(self, engine: OpenAIEngine, path: Path | None) -> None:
        self._engine, self._path, self._lock = engine, path, threading.Lock()
        self.dialect = Dialect(frozenset(["logprobs"] if engine.form else []))  # vendors' own forms give none
        self.tried = False
        if path is not None and path.is_file():
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                refused = frozenset(str(name) for name in kept["refused"]) & set(LEARNABLE)
                self.dialect = Dialect(refused, int(kept["top_logprobs"]), int(kept["room"]))
                self.tried = True
            except (OSError, ValueError, TypeError, KeyError):
                pass

    def body(self, text: str) -> dict[str, Any]:
        """Build the request about one prompt with the parameters that the model is known to take."""
        return self.dialect.body(self._engine, text)

    def learn(self, body: dict[str, Any], parameter: str | None, message: str) -> bool:
        """Learn from a refusal of the request ``body``; returns whether it is worth sending again.

        If the endpoint does not name the ``parameter`` that is wrong, its message is searched for one.
        """
        ours = [name for name in LEARNABLE if name in body and name not in self._engine.extra_body]
        if parameter is None:
            places = {name: re.search(rf"\b{name}\b", message) for name in ours}
            named = sorted((match.start(), name) for name, match in places.items() if match)
            parameter = named[0][1] if named else None
        if parameter not in ours:
            return False
        with self._lock:
            if self.body("").get(parameter) == body[parameter]:  # no other request has learned it meanwhile
                self.keep(self.dialect.without(parameter))
        return True

    def make_room(self, body: dict[str, Any]) -> bool:
        """Give all further requests more tokens for reasoning than this one had; False if the maximum is reached."""
        length = next((name for name in _LENGTHS if name in body and name not in self._engine.extra_body), None)
        if length is None:
            return False
        with self._lock:
            if self.body("").get(length) == body[length]:
                self.keep(self.dialect.with_more_reasoning())
            return self._engine.max_tokens + self.dialect.reasoning > body[length]

    def keep(self, dialect: Dialect) -> None:
        """Store the dialect for later runs."""
        self.dialect = dialect
        if self._path is None:
            return
        kept = {"refused": sorted(dialect.refused), "top_logprobs": dialect.top_logprobs, "room": dialect.reasoning}
        text = json.dumps({"model": self._engine.model, **kept}, indent=1)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self._path)
