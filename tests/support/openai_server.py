"""A local server that speaks the OpenAI protocol and misbehaves in every way that real servers do."""

from __future__ import annotations

import json
import math
import threading
import time
from http.server import BaseHTTPRequestHandler

from tests.support.servers import LocalServer


class Server(LocalServer):
    """Answers what ``say(text, attempt)`` gives: a dict for JSON, (code, body), or a float to sleep."""

    def __init__(self, say):
        self.say, self.requests, self.seen, self.at = say, [], {}, []
        self.lock = threading.Lock()
        super().__init__(Handler)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = body["messages"][0]["content"]
        with self.server.lock:
            attempt = self.server.seen[text] = self.server.seen.get(text, 0) + 1
            self.server.requests.append((body, dict(self.headers)))
            self.server.at.append(time.monotonic())
        told = self.server.say(text, attempt)
        if isinstance(told, float):
            time.sleep(told)
            told = answer("7")
        code, content = told if isinstance(told, tuple) else (200, json.dumps(told))
        self.send_response(code)
        if code == 429:
            self.send_header("retry-after", "0.2")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *_):
        pass


def answer(content, logprobs=None, model="judge-1", **message):
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    if logprobs is not None:
        choice["logprobs"] = {"content": logprobs}
    usage = {"prompt_tokens": 100, "completion_tokens": 1}
    return {"model": model, "choices": [choice], "usage": usage}


def first_token(token, **probabilities):
    top = [{"token": t.lstrip("_"), "logprob": math.log(p)} for t, p in probabilities.items()]
    return [{"token": token, "logprob": 0.0, "top_logprobs": top}]
