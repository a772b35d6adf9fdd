"""Local model endpoint that imitates one of several vendors and counts its charges."""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
import time
import zlib
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from urllib.parse import quote

from tests.support.servers import LocalServer, QuietHandler

PRICE_IN, PRICE_OUT = 3.0, 15.0
_PACKED, _PACKED_TWICE = gzip.compress(bytes(16 * 2**20)), gzip.compress(gzip.compress(bytes(2**20)))


class Vendor(LocalServer):
    """Server that answers each request with ``behave(handler, body)``."""

    request_queue_size = 256

    def __init__(self, behave):
        self.behave = behave
        self.bodies, self.tokens, self.connections, self.refused = [], [0, 0], 0, 0
        self.most_open = self.open = 0
        self.state = {}
        self.lock = threading.Lock()
        super().__init__(_Handler)

    @property
    def dollars(self):
        return (self.tokens[0] * PRICE_IN + self.tokens[1] * PRICE_OUT) / 1e6

    def handle_error(self, *_):
        """Ignore clients that disconnect."""


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.open += 1
            self.server.most_open = max(self.server.most_open, self.server.open)
        try:
            self.server.behave(self, body)
        finally:
            with self.server.lock:
                self.server.open -= 1

    def send(self, code, content, headers=(), every=None):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in (("content-length", str(len(data))), *dict(headers).items()):
            self.send_header(name, value)
        self.end_headers()
        for piece in [data] if every is None else [data[k : k + 1] for k in range(len(data))]:
            self.wfile.write(piece)
            self.wfile.flush()
            time.sleep(every or 0)

    def answer(self, content="7", model="judge-1", tokens=(100, 1), finish="stop", headers=(), every=None, **choice):
        """Send a completion, and add its cost to the charges."""
        message = {"role": "assistant", "content": content}
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        choices = [{"index": 0, "message": message, "finish_reason": finish, **choice}]
        if every is None:
            self.bill(tokens)
        self.send(200, {"model": model, "choices": choices, "usage": usage}, headers, every)
        if every is not None:  # the client goes away before the last byte
            self.bill(tokens)

    def bill(self, tokens):
        with self.server.lock:
            self.server.tokens = [self.server.tokens[0] + tokens[0], self.server.tokens[1] + tokens[1]]

    def refuse(self, message, code=400, headers=(), **error):
        with self.server.lock:
            self.server.refused += 1
        self.send(code, {"error": {"message": message, "type": "invalid_request_error", **error}}, headers)


def number_of(body):
    """Return the number k of "It is k." in the question, or a number derived from the question's text."""
    text = body["messages"][-1]["content"]
    found = re.search(r"It is (\d+)\.", text)
    return int(found[1]) if found else zlib.crc32(text.encode())


def reasoning_model(handler, body):
    """Refuse parameters of older models; cut off every seventh answer at the first token limit."""
    for name in ("max_tokens", "temperature", "logprobs", "top_logprobs"):
        if name in body:
            return handler.refuse(f"Unsupported parameter: '{name}' is not supported with this model.", param=name)
    need, room = (5_000 if number_of(body) % 7 == 3 else 300), body["max_completion_tokens"]
    if room < need:
        return handler.answer("", "thinker-2026-08-01", (100, room), "length")
    return handler.answer("7", "thinker-2026-08-01", (100, need))


def router(handler, body):
    """Answer an alias with the name of the chosen model."""
    return handler.answer("7", f"vendor{number_of(body) % 2}/large-2026-08-01")


def without_logprobs(handler, body):
    """Refuse log probabilities, with an error that names them only in prose."""
    if "logprobs" in body:
        return handler.refuse("litellm.UnsupportedParamsError: mistral does not support parameters: ['logprobs']")
    return handler.answer("I rate it 7")


def storm(handler, body):
    """Accept three requests per tenth of a second; refuse others with Retry-After, in either format."""
    state, now = handler.server.state, time.monotonic()
    with handler.server.lock:
        state["taken"] = [at for at in state.get("taken", []) if now - at < 0.1]
        full = len(state["taken"]) >= 3
        state["storms"] = state.get("storms", 0) + full
        if not full:
            state["taken"].append(now)
    if full:
        after = "0.1" if state["storms"] % 2 else formatdate(time.time() + 1, usegmt=True)
        return handler.refuse("slow down", 429, {"retry-after": after})
    return handler.answer()


def dripping(handler, body):
    """Send every fifth answer byte by byte, over a minute."""
    return handler.answer(every=0.25 if number_of(body) % 5 == 0 else None)


def bomb(handler, body):
    """Send some answers as small compressed bodies that decompress to huge bodies."""
    k = number_of(body)
    if k % 5 == 0:
        return handler.send(200, _PACKED, {"content-encoding": "gzip"})
    if k % 5 == 1:
        return handler.send(200, _PACKED_TWICE, {"content-encoding": "gzip, gzip"})
    return handler.answer()


def echoing(handler, body):
    """Repeat the API key completely, in part and encoded; fail some requests."""
    key = (handler.headers.get("authorization") or handler.path.partition("=")[2]).removeprefix("Bearer ")
    k = number_of(body)
    if number := handler.headers.get("x-token"):
        key = f"{key} and {number} and {base64.b64encode(key.encode()).decode()} and {quote(key, safe='')}"
        key += f" and {base64.b64encode(f'user:{key}'.encode()).decode()} and {key.encode().hex()}"
    if k % 4 == 0:
        return handler.refuse(f"İ{'x' * 189}{key} is broken", 500)
    if k % 4 == 1:
        return handler.send(200, f"no JSON, İ: {key[:12]} ... {key[-9:]}".encode())
    if k % 4 == 2:
        return handler.answer(f"7 because İ {key.upper()} says so", key)
    return handler.answer("7", "judge-1 " + key)


def anthropic(handler, body):
    """Answer in Anthropic's API; refuse fields of the OpenAI API."""
    wrong = {"logprobs", "top_logprobs", "max_completion_tokens"} & set(body)
    if wrong or handler.path != "/v1/messages" or "max_tokens" not in body or "x-api-key" not in handler.headers:
        return handler.send(
            400, {"type": "error", "error": {"type": "invalid_request_error", "message": f"no {wrong}"}}
        )
    if "temperature" in body:
        message = "temperature: this model does not support it"
        return handler.send(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})
    handler.bill((100, 5))
    usage = {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 5}
    parts = [{"type": "thinking", "thinking": "3?"}, {"type": "text", "text": "7"}]
    return handler.send(
        200, {"type": "message", "model": "m-1", "content": parts, "stop_reason": "end_turn", "usage": usage}
    )


def google(handler, body):
    """Answer in Google's API; cut off every seventh answer at the first attempt."""
    room = body["generationConfig"]["maxOutputTokens"]
    if handler.path != "/v1/models/judge-1:generateContent" or "x-goog-api-key" not in handler.headers:
        return handler.send(404, {"error": {"code": 404, "message": "not found", "status": "NOT_FOUND"}})
    text = body["contents"][0]["parts"][0]["text"]
    cut = number_of({"messages": [{"content": text}]}) % 7 == 3 and room < 1_000
    written = room if cut else 9
    handler.bill((100, written))
    content = {"role": "model"} if cut else {"parts": [{"text": "or 3", "thought": True}, {"text": "7"}]}
    candidate = {"content": content, "finishReason": "MAX_TOKENS" if cut else "STOP"}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 1, "thoughtsTokenCount": written - 1}
    return handler.send(200, {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m-1"})


FORMS = {anthropic: "anthropic", google: "google"}
KINDS = (anthropic, google, reasoning_model, router, without_logprobs, storm, dripping, bomb, echoing)
