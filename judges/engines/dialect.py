"""Request parameters that a model at an endpoint accepts, and the number of tokens reserved for reasoning.

Some models refuse parameters that other models require. CARE learns the accepted parameters from refused requests,
which cost nothing, and stores them in the workspace's data for later runs.
"""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from judges.spec import OpenAIEngine

REASONING_TOKENS = 2_048
"""Number of reasoning tokens that are added to the token limit if a model does not accept ``max_tokens``."""

_MOST_REASONING_TOKENS = 32_768
_LENGTHS = ("max_tokens", "max_completion_tokens")
LEARNABLE = (*_LENGTHS, "temperature", "top_logprobs", "logprobs")
"""Parameters that a request can omit."""


class Dialect:
    """Request parameters that one model at one endpoint accepts, stored in the file at ``path``.

    A file that cannot be read is ignored.

    Attributes
    ----------
    tried : bool
        Whether an answer has shown that the model accepts the parameters.
    """

    def __init__(self, engine: OpenAIEngine, path: Path | None) -> None:
        self._engine, self._path, self._lock = engine, path, threading.Lock()
        self.tried = False
        self._refused = {"logprobs"} if engine.form else set[str]()  # vendors' own forms return no log probabilities
        self._top_logprobs, self._reasoning = 20, 0
        if path is not None and path.is_file():
            with suppress(OSError, ValueError, TypeError, KeyError):
                kept = json.loads(path.read_text(encoding="utf-8"))
                self._top_logprobs, self._reasoning = int(kept["top_logprobs"]), int(kept["room"])
                self._refused = {str(name) for name in kept["refused"]} & set(LEARNABLE)
                self.tried = True

    def body(self, text: str) -> dict[str, Any]:
        """Build the request body for one prompt, without the parameters that the model has refused."""
        engine = self._engine
        body: dict[str, Any] = {"model": engine.model, "messages": [{"role": "user", "content": text}]}
        length = next((name for name in _LENGTHS if name not in self._refused), None)
        if length is not None:
            body[length] = engine.max_tokens + self._reasoning
        if "temperature" not in self._refused:
            body["temperature"] = 0
        if engine.scoring != "text" and "logprobs" not in self._refused:
            body |= {"logprobs": True, "top_logprobs": self._top_logprobs}
        if engine.reasoning_effort is not None:
            body["reasoning_effort"] = engine.reasoning_effort
        return body | engine.extra_body

    def learn(self, body: dict[str, Any], parameter: str | None, message: str) -> bool:
        """Record a parameter that the model refused; return whether the request can be changed and retried.

        ``body`` is the refused request. If ``parameter`` is None, the error ``message`` must name the parameter.
        """
        ours = [name for name in LEARNABLE if name in body and name not in self._engine.extra_body]
        if parameter is None:
            places = {name: re.search(rf"\b{name}\b", message) for name in ours}
            named = sorted((match.start(), name) for name, match in places.items() if match)
            parameter = named[0][1] if named else None
        if parameter not in ours:
            return False
        with self._lock:
            if self.body("").get(parameter) == body[parameter]:  # no other request has learned it in the meantime
                if parameter == "top_logprobs" and self._top_logprobs > 5:
                    self._top_logprobs = 5
                else:
                    self._refused = self._refused | {"logprobs" if parameter == "top_logprobs" else parameter}
                if parameter == "max_tokens":
                    self._reasoning = max(self._reasoning, REASONING_TOKENS)
                self.keep()
        return True

    def make_room(self, body: dict[str, Any]) -> bool:
        """Increase the token limit of later requests; return whether the new limit exceeds the limit in ``body``."""
        length = next((name for name in _LENGTHS if name in body and name not in self._engine.extra_body), None)
        if length is None:
            return False
        with self._lock:
            if self.body("").get(length) == body[length]:
                more = self._reasoning * 4 or 2 * REASONING_TOKENS
                self._reasoning = max(self._reasoning, min(more, _MOST_REASONING_TOKENS))
                self.keep()
            return self._engine.max_tokens + self._reasoning > body[length]

    def keep(self) -> None:
        """Store the accepted parameters in the file for later runs."""
        if self._path is None:
            return
        kept = {"refused": sorted(self._refused), "top_logprobs": self._top_logprobs, "room": self._reasoning}
        text = json.dumps({"model": self._engine.model, **kept}, indent=1)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self._path)
