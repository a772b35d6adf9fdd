"""Fuzz targets for judges: prompt templates, replies of models, responses of endpoints, output of programs."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.support import hostile
from tests.support.hostile import FindingError

MOST_PARSING_S = 1.0

TEMPLATES = (
    *("{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{{ 'a' * 10**10 }}", "{{ [0] * 10**10 }}"),
    *("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% for a in range(10**9) %}x{% endfor %}", "{{ x }}", "{{"),
    *("{{ ''.__class__.__mro__ }}", "{{ response.format(1) }}", "{{ response[0] }}", "{{ 1 / 0 }}", "{% if %}"),
    *("{{ '%d' % response }}", "{{ response | int / 0 }}", "{{ response + 1 }}", "{{ 10 ** 10 ** 8 }}"),
    *("{{ response | batch(0) | list }}", "{{ response.center(10**10) }}", "{{ '%0999999999d' % 1 }}"),
    *(
        "{{ low | round(response) }}",
        "{{ response | indent(10**9) }}",
        "{{ cycler().next() }}",
        "{{ response | nope }}",
    ),
    *("{{ lipsum(n=10**7) }}", "{{ response | truncate(-1) }}", "{{" + "(" * 300 + ")" * 300 + "}}"),
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{{ response | replace('', response * 99999) | replace('', response * 99999) }}",
)


def template(rng: random.Random, folder: Path) -> None:
    """Render a corrupted prompt template with an item of random texts."""
    from judges.items import Item
    from judges.prompts.template import Template
    from judges.settings_files import read_model

    content = {"instructions": "Rate", "item": hostile.text("{{ response }}", rng)}
    content[rng.choice(["instructions", "item", "description"])] = rng.choice(TEMPLATES) + rng.choice(
        ["", "{{ prompt }}"]
    )
    (folder / "t.yaml").write_text(json.dumps(content))
    made = read_model(folder / "t.yaml", Template)
    made.render(Item("i", *(rng.choice(hostile.TEXTS) for _ in range(3))), (1.0, 10.0))


ANSWERS = (
    *("Total rating: 7", "8/10", "I'd say 3-4", "[1, 2, 3, 4", "[" + "1, " * 3000, "{(" * 800, "7 out of 10", "1,5"),
    *("−3", "٣", "0x1f", "1e5", "I cannot", "seven", "**8**", "<think>" + "x " * 5000, "1 " * 5000, "1-" * 5000),
    *("1/" * 5000, "10.0.0.1", "1" * 5000),
)


def answer(rng: random.Random, folder: Path) -> None:
    """Parse a model's reply, which must take less than a second and return a score on the scale, or no score."""
    from judges.parsing import parse_answer

    low = rng.choice([0, 1, -3, -100])
    high = low + rng.choice([1, 4, 10, 100])
    answers = rng.choice([{str(v): float(v) for v in range(low, high + 1)}, {"no": 0.0, "yes": 1.0}])
    text = "".join(rng.choice([*ANSWERS, *hostile.TEXTS, " ", "\n", "Total rating:"]) for _ in range(rng.randint(1, 6)))
    text = hostile.text(text, rng) * rng.choice([1, 1, 1, 20])
    started = time.perf_counter()
    score, _ = parse_answer(text, answers, first=rng.random() < 0.2)
    if time.perf_counter() - started > MOST_PARSING_S:
        raise FindingError(f"took {time.perf_counter() - started:.1f} s to read {text[:60]!r}")
    if score is not None and not min(answers.values()) <= score <= max(answers.values()):
        raise FindingError(f"{score} is beyond the scale")


REPLY = {
    "model": "judge-1",
    "choices": [
        {
            "message": {"role": "assistant", "content": "8", "refusal": None},
            "finish_reason": "stop",
            "logprobs": {
                "content": [{"token": "8", "logprob": -0.1, "top_logprobs": [{"token": "8", "logprob": -0.1}]}]
            },
        }
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
}
ERROR = {"error": {"message": "bad", "code": 400, "param": "temperature", "type": "invalid_request_error"}}


class _Response:
    """Response of a connection, which ``Endpoint`` reads in pieces."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], pieces: list[bytes]) -> None:
        self.status, self.headers, self._pieces = status, headers, pieces

    def __enter__(self) -> _Response:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def iter_stream(self) -> list[bytes]:
        return self._pieces


class _Pool:
    """Pool of connections that responds with ``respond(method, url)``."""

    def __init__(self, respond: Callable[[str, str], _Response]) -> None:
        self._respond = respond

    def stream(self, method: str, url: str, **_: object) -> _Response:
        url.encode("ascii")  # as httpcore does
        return self._respond(method, url)

    def close(self) -> None:
        """Nothing is open."""


def endpoint(rng: random.Random, folder: Path) -> None:
    """Ask an endpoint with corrupted responses; each item must get a score or a status, or the judge gives a reason."""
    from judges.engines import endpoint as module
    from judges.engines.base import Context
    from judges.engines.factory import build_engine
    from judges.items import Item
    from judges.spec import JudgeSpec

    form = rng.choice(["chat", "chat", "anthropic", "gemini"])
    settings = {
        "base_url": "http://127.0.0.1:9/v1",
        "model": "m",
        "template": "quality",
        "api_key_env": None,
        "retries": 0,
    }
    settings |= {} if form == "chat" else {"form": form} if form in module.FORMS else {}
    spec = JudgeSpec.model_validate({"name": "api", "engine": {"kind": "openai", **settings}})
    engine = build_engine(spec, Context())

    names = [b"content-encoding", b"retry-after", b"x-ratelimit-remaining-requests", b"x-ratelimit-reset-tokens"]
    texts = [b"gzip", b"br", b"deflate", b"1e999", b"-1", b"nan", b"\xff", b"9" * 50, b"Wed, 99 Nov 2026 99:00:00 GMT"]

    def respond(_method: str, _url: str) -> _Response:
        headers = [(name, rng.choice(texts)) for name in names if rng.random() < 0.15]
        content = hostile.as_json(hostile.spoilt(rng.choice([REPLY, REPLY, ERROR]), rng), rng)
        content = hostile.bytes_of(content, rng) if rng.random() < 0.15 else content
        if any(name == b"content-encoding" for name, _ in headers):
            packed = gzip.compress(content if rng.random() < 0.7 else bytes(50_000_000), 1)
            content = packed if rng.random() < 0.5 else hostile.bytes_of(packed, rng)
        status = rng.choice([200, 200, 200, 400, 401, 404, 422, 429, 500, 503, 0, 999])
        return _Response(status, headers, [content[k : k + 4096] for k in range(0, len(content), 4096)])

    engine._endpoint._connection = lambda: (_Pool(respond), module._Clock())
    engine._pace.rest = lambda _pause: None
    try:
        scores = engine.score([Item(f"i{k}", "What?", f"It is {k}.") for k in range(2)])
        if len(scores) != 2:
            raise FindingError(f"{len(scores)} scores of 2 items")
    finally:
        engine.close()


def batch(rng: random.Random, folder: Path) -> None:
    """Use corrupted responses to batch files: a list of batches, the state of a batch, the answers in its files."""
    from judges.batch import Batch, BatchStore
    from judges.engines import endpoint as module
    from judges.engines.base import Context
    from judges.engines.batches import BatchJudgeEngine
    from judges.items import Item
    from judges.questions import Batches, ItemsInMemory, Questions
    from judges.spec import JudgeSpec

    settings = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "template": "quality", "api_key_env": None}
    settings |= {"retries": 0, "batch": True, "scoring": "text"}
    spec = JudgeSpec.model_validate({"name": "api", "engine": {"kind": "openai", **settings}})
    kept = {
        name: Batch(name, "k", "2026-11-24 10:00:00.0", 2, 2, ("a", "b"), {"model": "m"}, 0.0, batch_id)
        for name, batch_id in (("t1", "b1"), ("t2", ""))
    }
    asked = [0]

    def content_of(method: str, path: str) -> bytes:
        response = {"status_code": 200, "body": REPLY}
        sound: dict[str, object] = {"id": "b1", "status": "completed", "output_file_id": "f1", "error_file_id": "f2"}
        sound |= {"request_counts": {"completed": 1}, "errors": None}
        asked[0] += 1
        if method == "POST":
            sound = {"id": "f1"}
        elif path.endswith("/content"):
            lines = [{"custom_id": rng.choice("aabc"), "response": response} for _ in range(4)]
            return b"\n".join(hostile.as_json(hostile.spoilt(line, rng), rng) for line in lines)
        elif path.endswith("/batches"):
            listed = [{"id": "b2", "metadata": {"care": rng.choice(["t2", "t3"])}}, {"id": f"b{asked[0]}"}]
            sound = {"data": listed, "has_more": rng.random() < 0.5}
        document = hostile.spoilt(sound, rng) if rng.random() < 0.4 else sound
        return hostile.as_json(document, rng)

    def respond(method: str, url: str) -> _Response:
        content = content_of(method, url.partition("?")[0])
        return _Response(rng.choice([200] * 40 + [404, 429, 500]), [], [content])

    def keep(one: Batch) -> None:
        kept[one.token] = one

    store = BatchStore(
        "k",
        lambda: [*kept.values()],
        lambda _: folder,
        keep,
        lambda one: kept.pop(one.token, None),
        lambda *_: None,
    )
    engine = BatchJudgeEngine(spec, spec.engine, Context(), store)
    engine._endpoint._connection = lambda: (_Pool(respond), module._Clock())
    engine._pace.rest = lambda _pause: None
    try:
        items = ItemsInMemory([Item(f"i{k}", "What?", f"It is {k}.") for k in range(3)])
        if sum(map(len, engine.run(Batches(Questions(items, spec), 3, lambda: False)))) > 3:
            raise FindingError("more scores than items")
    finally:
        engine.close()


def program(rng: random.Random, folder: Path) -> None:
    """Read the corrupted output of a judge's program."""
    from judges.engines.program import SandboxedJudgeEngine
    from judges.items import Item
    from judges.sandbox import ProgramFile
    from judges.spec import ProgramEngine

    output = rng.choice(
        (
            *(
                "[" * 60_000,
                '{"a":' * 10_000,
                '{"score": 1}\n{"score": 2}',
                '{"score": NaN}',
                '{"score": true}',
                "null",
            ),
            *('{"score": [1]}', '{"score": "5"}', '{"error": 5}', '{"error": "' + "x" * 60_000 + '"}', "\xff"),
            '{"score": ' + "9" * 5000 + "}",
        )
    )
    writes = f"os.write(fd, {output.encode('latin-1')!r} + b'\\n')"
    write_output = f"import os\nfor fd in range(3, 20):\n  try: {writes}\n  except OSError: pass\n"
    body = rng.choice(
        [
            write_output,
            "return 10**400",
            "return float('inf')",
            "return {'score': 'x'}",
            "raise SystemExit",
            "return 1j",
        ]
    )
    indented = "\n".join("  " + line for line in body.splitlines())
    (folder / "p.py").write_text(f"def program_judge(query, response):\n{indented}\n")
    program_file = ProgramFile(folder / "p.py", (folder / "p.py").read_text())
    engine = SandboxedJudgeEngine(
        ProgramEngine(kind="program", program="p.py", unsafe=True, timeout_s=3), program_file, None
    )
    try:
        if len(engine.score([Item("i", "a", "b")])) != 1:
            raise FindingError("no score and no status")
    finally:
        engine.close()
