"""Local server with the OpenAI API, including files and batches, that can fail as real servers do."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

from tests.support.servers import LocalServer, QuietHandler


class Server(LocalServer):
    """Server whose responses are the results of ``say``: a dict for JSON, (code, body), or seconds to sleep."""

    def __init__(self, say):
        self.say, self.requests, self.seen, self.at = say, [], {}, []
        self.lock = threading.Lock()
        self.files, self.batches, self.paid, self.tokens = {}, {}, Counter(), [0, 0]
        self.has_batches, self.refuses = True, ()
        super().__init__(Handler)

    def answered(self, body, attempt, batch=False):
        """Answer one request, and add its cost to the charges."""
        if wrong := [name for name in self.refuses if name in body]:
            return 400, json.dumps({"error": {"message": f"Unsupported parameter: '{wrong[0]}'", "param": wrong[0]}})
        text = body["messages"][0]["content"]
        reply = self.say(text, attempt)
        if isinstance(reply, dict) and "usage" in reply:
            with self.lock:
                self.paid[text] += 1
                usage = reply["usage"]
                self.tokens = [self.tokens[0] + usage["prompt_tokens"], self.tokens[1] + usage["completion_tokens"]]
                self.dollars += (
                    (0.5 if batch else 1.0) * (usage["prompt_tokens"] * 2 + usage["completion_tokens"] * 10) / 1e6
                )
        return reply

    dollars = 0.0

    def work(self, most=10**9, status="completed"):
        """Answer up to ``most`` lines of each open batch; the others expire."""
        for batch in self.batches.values():
            if batch["status"] != "in_progress":
                continue
            good, bad = [], []
            for k, line in enumerate(map(json.loads, self.files[batch["input_file_id"]].splitlines())):
                assert line["method"] == "POST"
                assert line["url"] == batch["endpoint"] == "/v1/chat/completions"
                if k >= most:
                    bad.append({"custom_id": line["custom_id"], "response": None, "error": {"code": "batch_expired"}})
                    continue
                text = line["body"]["messages"][0]["content"]
                self.seen[text] = self.seen.get(text, 0) + 1
                reply = self.answered(line["body"], self.seen[text], batch=True)
                code, body = reply if isinstance(reply, tuple) else (200, reply)
                body = json.loads(body) if isinstance(body, str) else body
                response = {"status_code": code, "request_id": "r", "body": body}
                (good if code == 200 else bad).append({"custom_id": line["custom_id"], "response": response})
            batch["status"] = status
            batch["request_counts"]["completed"] = len(good)
            for name, lines in (("output_file_id", good), ("error_file_id", bad)):
                if lines:
                    batch[name] = self.keep("".join(json.dumps(line) + "\n" for line in lines).encode())

    def keep(self, content):
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name


class Handler(QuietHandler, BaseHTTPRequestHandler):
    def send_json(self, document, code=200):
        self.send_content(json.dumps(document).encode(), code)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        *_, kind, name = path.strip("/").removesuffix("/content").split("/")
        if path == "/v1/batches":
            every, after = list(self.server.batches.values()), parse_qs(query).get("after", [None])[0]
            start = 0 if after is None else 1 + [batch["id"] for batch in every].index(after)
            page = every[start : start + 2]
            return self.send_json({"data": page, "has_more": start + 2 < len(every)})
        if kind == "files" and name in self.server.files:
            return self.send_content(self.server.files[name])
        if kind == "batches" and name in self.server.batches:
            return self.send_json(self.server.batches[name])
        return self.send_json({"error": {"message": "no such thing"}}, 404)

    def upload(self, content):
        """Store an uploaded file, or create a batch."""
        if not self.server.has_batches:
            return self.send_json({"detail": "Not Found"}, 404)
        if self.path == "/v1/files":
            form = BytesParser(policy=HTTP).parsebytes(
                b"content-type: %s\r\n\r\n%s" % (self.headers["content-type"].encode(), content)
            )
            names = [part.get_param("name", header="content-disposition") for part in form.iter_parts()]
            parts = dict(zip(names, (part.get_payload(decode=True) for part in form.iter_parts()), strict=True))
            assert parts["purpose"] == b"batch"
            return self.send_json({"id": self.server.keep(parts["file"])})
        asked = json.loads(content)
        assert asked["completion_window"] == "24h"
        lines = self.server.files[asked["input_file_id"]].splitlines()
        number = sum(name.startswith("batch") for name in self.server.batches)
        batch = asked | {"id": f"batch-{number}", "status": "in_progress"}
        batch["request_counts"] = {"total": len(lines), "completed": 0, "failed": 0}
        self.server.batches[batch["id"]] = batch
        return self.send_json(batch)

    def do_POST(self):
        content = self.rfile.read(int(self.headers["content-length"]))
        if not self.path.endswith("/chat/completions"):
            return self.upload(content)
        body = json.loads(content)
        text = body["messages"][0]["content"]
        with self.server.lock:
            attempt = self.server.seen[text] = self.server.seen.get(text, 0) + 1
            self.server.requests.append((body, dict(self.headers)))
            self.server.at.append(time.monotonic())
        reply = self.server.answered(body, attempt)
        if isinstance(reply, float):
            time.sleep(reply)
            reply = answer("7")
        code, content = reply if isinstance(reply, tuple) else (200, json.dumps(reply))
        return self.send_content(content.encode(), code, **({"retry_after": "0.2"} if code == 429 else {}))


def answer(content, logprobs=None, model="judge-1", **message):
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    if logprobs is not None:
        choice["logprobs"] = {"content": logprobs}
    usage = {"prompt_tokens": 100, "completion_tokens": 1}
    return {"model": model, "choices": [choice], "usage": usage}


def first_token(token, **probabilities):
    top = [{"token": t.lstrip("_"), "logprob": math.log(p)} for t, p in probabilities.items()]
    return [{"token": token, "logprob": 0.0, "top_logprobs": top}]
