"""What a model behind an endpoint takes: which parameters, and how many tokens it needs to reason.

Models of today refuse parameters that others require. What one takes is known from a small table, or learned from what
it refuses, which costs nothing, and is kept from run to run beside the workspace's data.
"""

from __future__ import annotations

import json
import os
import re
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from judges.spec import OpenAIEngine

REASONING_TOKENS = 2_048
"""Tokens that a model which reasons may take for that, beside its answer, until an answer is cut off."""

_MOST_REASONING_TOKENS = 32_768
_LENGTHS = ("max_tokens", "max_completion_tokens")
LEARNABLE = (*_LENGTHS, "temperature", "top_logprobs", "logprobs", "response_format")
"""Parameters that a request can do without."""

_NEW_FORM = ("max_tokens", "temperature", "logprobs")
_KNOWN: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"(?:o\d|gpt-5(?!.*chat))", _NEW_FORM),
    (r"(?:deepseek-reasoner|gemini-(?:2\.5|[3-9]).*)", ("logprobs",)),
    (r"(?:deepseek-r1|gpt-oss|grok-4|magistral|qwq|.*thinking)", ()),
)
"""Names of models that reason, after the vendor's name, and what they refuse. It saves the first refusal, no more."""

_ALSO_CALLED = {"response_format": r"output_config|response_?json_?schema|response_?mime_?type|json_schema"}
"""By what other names refusals speak of them."""


@dataclass(frozen=True)
class Dialect:
    """What a model takes.

    Attributes
    ----------
    refused : frozenset of str
        Parameters that it does not take.
    top_logprobs : int
        Number of likeliest tokens to ask for.
    room : int
        Tokens for reasoning beside those of the answer; 0 for a model that is not known to reason.
    """

    refused: frozenset[str] = field(default_factory=frozenset)
    top_logprobs: int = 20
    room: int = 0

    @classmethod
    def of(cls, engine: OpenAIEngine) -> Dialect:
        """What the table says of a model; vendors' own forms have no log probabilities that are read."""
        name = engine.model.rpartition("/")[2].lower()
        never = frozenset(["logprobs"] if engine.form else [])
        for pattern, refused in _KNOWN:
            if re.match(pattern, name):
                return cls(never | set(refused), room=REASONING_TOKENS)
        return cls(never)

    def body(self, engine: OpenAIEngine, text: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
        """The request about one prompt, and the JSON schema of its answer where it is to have one."""
        body: dict[str, Any] = {"model": engine.model, "messages": [{"role": "user", "content": text}]}
        length = next((name for name in _LENGTHS if name not in self.refused), None)
        if length is not None:
            body[length] = engine.max_tokens + self.room
        if "temperature" not in self.refused:
            body["temperature"] = 0
        if engine.scoring != "text" and "logprobs" not in self.refused:
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        if schema is not None and "response_format" not in self.refused:
            named = {"name": "scores", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        if engine.reasoning_effort is not None:
            body["reasoning_effort"] = engine.reasoning_effort
        return body | engine.extra_body

    def without(self, parameter: str) -> Dialect:
        """The same without a parameter that was refused."""
        if parameter == "top_logprobs" and self.top_logprobs > 5:
            return replace(self, top_logprobs=5)
        parameter = "logprobs" if parameter == "top_logprobs" else parameter
        room = REASONING_TOKENS if parameter == "max_tokens" else 0
        return replace(self, refused=self.refused | {parameter}, room=max(self.room, room))

    def roomier(self) -> Dialect:
        """The same with more room for reasoning."""
        room = self.room * 4 if self.room else 2 * REASONING_TOKENS
        return replace(self, room=max(self.room, min(room, _MOST_REASONING_TOKENS)))


class Knowledge:
    """What is known of one model at one endpoint, shared by all requests and kept in a file, where there is a path.

    A file that cannot be read is as good as none.
    """

    def __init__(self, engine: OpenAIEngine, path: Path | None, schema: dict[str, Any] | None = None) -> None:
        self._engine, self._path, self._schema, self._lock = engine, path, schema, threading.Lock()
        self.dialect = Dialect.of(engine)
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
        """The request about one prompt, as far as is known what the model takes."""
        return self.dialect.body(self._engine, text, self._schema)

    def learn(self, body: dict[str, Any], parameter: str | None, message: str) -> bool:
        """Learn from a refusal of the request ``body``; whether it is worth sending again.

        Where the endpoint does not say which ``parameter`` is wrong, its message is searched for the name of one.
        """
        ours = [name for name in LEARNABLE if name in body and name not in self._engine.extra_body]
        if parameter is None:
            places = {name: re.search(rf"\b({name}|{_ALSO_CALLED.get(name, name)})\b", message) for name in ours}
            named = sorted((match.start(), name) for name, match in places.items() if match)
            parameter = named[0][1] if named else None
        if parameter not in ours:
            return False
        with self._lock:
            if self.body("").get(parameter) == body[parameter]:  # nobody learned it meanwhile
                self.keep(self.dialect.without(parameter))
        return True

    def make_room(self, body: dict[str, Any]) -> bool:
        """Give all further requests more room for reasoning than this one had; False where there is no more."""
        length = next((name for name in _LENGTHS if name in body and name not in self._engine.extra_body), None)
        if length is None:
            return False
        with self._lock:
            if self.body("").get(length) == body[length]:
                self.keep(self.dialect.roomier())
            return self._engine.max_tokens + self.dialect.room > body[length]

    def keep(self, dialect: Dialect) -> None:
        """Remember what the model takes, so that later runs need not try."""
        self.dialect = dialect
        if self._path is None:
            return
        kept = asdict(dialect) | {"model": self._engine.model, "refused": sorted(dialect.refused)}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(f".{os.getpid()}.tmp")
        beside.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        beside.replace(self._path)
