"""Conversion of a conversation into two texts for judges: a prompt, and an answer with all tool calls.

CARE reads three message formats: OpenAI's (``tool_calls``, the role ``tool``), Anthropic's (blocks ``tool_use`` and
``tool_result``) and ShareGPT's (``from``, ``value``).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

NAMES = ("messages", "conversation", "conversations", "dialog", "dialogue", "trajectory", "transcript", "chat")
"""Common names for a column that contains conversations."""

_SPEAKERS = {"human": "user", "gpt": "assistant", "model": "assistant", "ai": "assistant", "function": "tool"}
Message = Mapping[str, Any]


def messages_of(value: Any) -> list[Message]:
    """Return the messages of a conversation (a list or the JSON text of a list), or [] for any other value.

    >>> messages_of('[{"role": "user", "content": "Hello"}]')
    [{'role': 'user', 'content': 'Hello'}]
    >>> messages_of("Hello")
    []
    """
    if isinstance(value, str) and value.lstrip().startswith("[") and value.rstrip().endswith("]"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    messages = value if isinstance(value, list) else []
    are_messages = all(isinstance(each, Mapping) and isinstance(_role(each), str) for each in messages)
    return messages if are_messages else []


def split_answer(messages: Sequence[Message]) -> tuple[str | None, str | None]:
    """Split a conversation after the user's last message; return prompt and answer, each None if it has no message.

    >>> split_answer([{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}])
    ('2 + 2?', '4')
    """
    asked = [k for k, message in enumerate(messages) if _speaker(message) == "user"]
    first = asked[-1] + 1 if asked else 0
    return transcript(messages[:first]), transcript(messages[first:])


def transcript(messages: Sequence[Message]) -> str | None:
    """Join messages into one text, with speakers' roles for several messages; return None if there are no messages."""
    if len(messages) < 2:
        return _message_text(messages[0]) if messages else None
    return "\n\n".join(f"{_speaker(message).capitalize()}: {_message_text(message)}" for message in messages)


def _role(message: Message) -> Any:
    return message.get("role") or message.get("from")


def _speaker(message: Message) -> str:
    """Return the role of a message's speaker; return ``tool`` for a user message that contains only tool results."""
    role = str(_SPEAKERS.get(_role(message), _role(message)))
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    results = [isinstance(block, Mapping) and block.get("type") == "tool_result" for block in blocks]
    return "tool" if role == "user" and results and all(results) else role


def _message_text(message: Message) -> str:
    content = message.get("content")
    calls = [_called(call) for call in message.get("tool_calls") or []]
    return "\n".join(filter(None, [_text(message.get("value") if content is None else content), *calls]))


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return "" if content is None else str(content)
    return "\n".join(filter(None, map(_block, content)))


def _block(block: Any) -> str:
    if not isinstance(block, Mapping):
        return str(block)
    if block.get("type") == "tool_use":
        return _called(block)
    if block.get("text") is not None:
        return str(block["text"])
    return _text(block.get("content")) or f"[{block.get('type')}]"


def _called(call: Mapping[str, Any]) -> str:
    inner = call.get("function")
    call = inner if isinstance(inner, Mapping) else call
    given = call.get("arguments", call.get("input"))
    given = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return f"calls {call.get('name') or inner}({given})"
