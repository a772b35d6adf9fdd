"""Request and response formats of the APIs of OpenAI, Anthropic and Google."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_OURS = ("model", "messages", "max_tokens", "max_completion_tokens", "temperature")
_LONGEST = 4_096
"""Maximum number of tokens in an answer if the API requires a limit but the request sets no limit."""


@dataclass(frozen=True)
class Form:
    """Request and response format of one API.

    Attributes
    ----------
    path : str
        Path of a request below the judge's ``base_url``; ``{model}`` stands for the model.
    key : (str, str)
        Name and value of the header with the API key; ``{key}`` in the value stands for the key.
    request, answer : callable
        Functions that convert a request from OpenAI's format to the API's format, and a response back.
    headers : dict
        Additional HTTP headers of each request.
    """

    path: str = "/chat/completions"
    key: tuple[str, str] = ("Authorization", "Bearer {key}")
    request: Callable[[Json], Json] = dict
    answer: Callable[[Json], Json] = dict
    headers: dict[str, str] = field(default_factory=dict[str, str])


def _longest(body: Json) -> Any:
    return body.get("max_tokens", body.get("max_completion_tokens", _LONGEST))


def _to_anthropic(body: Json) -> Json:
    request = {name: value for name, value in body.items() if name != "max_completion_tokens"}
    return request | {"max_tokens": _longest(body)}


def _from_anthropic(answer: Json) -> Json:
    usage, reason = answer["usage"], str(answer.get("stop_reason"))
    read = sum(usage.get(f"{kind}input_tokens") or 0 for kind in ("", "cache_creation_", "cache_read_"))
    return {
        "model": answer.get("model"),
        "choices": [
            {
                "message": {"content": answer["content"]},
                "finish_reason": {"max_tokens": "length", "refusal": "content_filter"}.get(reason, reason),
            }
        ],
        "usage": {
            "prompt_tokens": read,
            "prompt_tokens_details": {"cached_tokens": usage.get("cache_read_input_tokens")},
            "completion_tokens": usage.get("output_tokens"),
        },
    }


def _to_google(body: Json) -> Json:
    more = {name: value for name, value in body.items() if name not in _OURS}
    settings = {"maxOutputTokens": _longest(body)} | {name: body[name] for name in ("temperature",) if name in body}
    contents = [{"role": "user", "parts": [{"text": message["content"]}]} for message in body["messages"]]
    return more | {"contents": contents, "generationConfig": settings | more.get("generationConfig", {})}


def _from_google(answer: Json) -> Json:
    usage = answer["usageMetadata"]
    common: Json = {
        "model": answer.get("modelVersion"),
        "usage": {
            "prompt_tokens": usage.get("promptTokenCount"),
            "prompt_tokens_details": {"cached_tokens": usage.get("cachedContentTokenCount")},
            "completion_tokens": (usage.get("candidatesTokenCount") or 0) + (usage.get("thoughtsTokenCount") or 0),
            "completion_tokens_details": {"reasoning_tokens": usage.get("thoughtsTokenCount")},
        },
    }
    if "candidates" not in answer:  # the question itself was blocked
        return common | {"choices": [{"message": {}, "finish_reason": "content_filter"}]}
    candidate = answer["candidates"][0]
    parts = [part for part in (candidate.get("content") or {}).get("parts") or [] if not part.get("thought")]
    reasons = {"MAX_TOKENS": "length", "SAFETY": "content_filter", "PROHIBITED_CONTENT": "content_filter"}
    reason = str(candidate.get("finishReason"))
    return common | {"choices": [{"message": {"content": parts}, "finish_reason": reasons.get(reason, reason)}]}


FORMS = {
    None: Form(),
    "anthropic": Form(
        "/messages", ("x-api-key", "{key}"), _to_anthropic, _from_anthropic, {"anthropic-version": "2023-06-01"}
    ),
    "google": Form("/models/{model}:generateContent", ("x-goog-api-key", "{key}"), _to_google, _from_google),
}
"""Format of each API, keyed by the value of ``form`` in the engine settings of a judge."""
