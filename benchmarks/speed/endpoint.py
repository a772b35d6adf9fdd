"""Endpoints: the share of concurrency / latency that a judge reaches, and connections, against a server beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager

from judges.engines.base import Context, Ledger
from judges.items import Item, Score
from judges.pool import Pool, PoolConfig
from judges.spec import JudgeSpec, OpenAIEngine

LATENCY_S = 0.25
ROUNDS = 24

SERVER = """
import asyncio, json, sys
latency, seen = float(sys.argv[1]), {"connections": 0, "requests": 0, "tokens": [0, 0]}
usage = {"prompt_tokens": 100, "completion_tokens": 1}
choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "7"}}
def packed(document):
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body
answer = packed({"model": "m-2026-08-01", "choices": [choice], "usage": usage})
class Door(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.came = transport, b""
        seen["connections"] += 1
    def data_received(self, data):
        self.came += data
        head, _, body = self.came.partition(b"\\r\\n\\r\\n")
        if head.startswith(b"GET"):
            self.transport.write(packed(seen))
            self.came = b""
            return
        length = head.lower().partition(b"content-length:")[2].split(b"\\r\\n")[0]
        if not length or len(body) < int(length):
            return
        self.came = b""
        seen["requests"] += 1
        seen["tokens"] = [seen["tokens"][0] + 100, seen["tokens"][1] + 1]
        asyncio.get_running_loop().call_later(latency, self.transport.write, answer)
async def main():
    server = await asyncio.get_running_loop().create_server(Door, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def server() -> Generator[str]:
    """A server in a process of its own that answers each request after the same time."""
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(LATENCY_S)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.kill()
        process.wait()


def run() -> list[dict[str, object]]:
    """A row for each concurrency; each goes the judge's whole way, in batches of 256 questions."""
    os.environ["CARE_BENCH_KEY"] = "key-of-the-benchmark"
    at(1, 1)  # imports what it takes
    return [at(concurrency, ROUNDS) for concurrency in (8, 32, 64, 128)]


def at(concurrency: int, rounds: int) -> dict[str, object]:
    """Items a second against the ideal, connections, and dollars against the server's count."""
    number = concurrency * rounds
    questions = [
        Item(f"i{k}", f"What is {k}?", f"It is {k}. " + "Because of this and that. " * 40) for k in range(number)
    ]
    kept: list[Score] = []
    ledger = Ledger()
    with server() as url:
        engine = OpenAIEngine(
            base_url=url,
            model="m",
            template="quality",
            scoring="text",
            api_key_env="CARE_BENCH_KEY",
            concurrency=concurrency,
            price_in=1.0,
            price_out=2.0,
        )
        begun, cpu = time.perf_counter(), time.process_time()
        with Pool(PoolConfig()) as pool:
            pool.run(JudgeSpec(name="j", engine=engine), questions, lambda b, _: kept.extend(b), Context(ledger=ledger))
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        with urllib.request.urlopen(url) as answer:
            seen = json.load(answer)
    assert len(kept) == seen["requests"] == number
    assert all(score.score == 7.0 for score in kept)
    owed = (seen["tokens"][0] * 1.0 + seen["tokens"][1] * 2.0) / 1e6
    return {
        "concurrency": concurrency,
        "items": number,
        "items/s": number / seconds,
        "share of the ideal": number / seconds * LATENCY_S / concurrency,
        "connections": seen["connections"] - 1,  # the last one asked for the counts
        "CPU ms an item": 1e3 * cpu / number,
        "dollars less the server's": ledger.total.dollars - owed,
    }
