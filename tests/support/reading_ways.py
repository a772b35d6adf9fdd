"""Ways to read a model's answer on 0 to 100, and what each costs: passes, tokens and seconds an item.

A pass is one sequence that goes once through the model, whatever else goes through with it; tokens are those that are
computed, without the ones that come out of vLLM's prefix cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.engines.model import Backend, ModelJudgeEngine
from judges.engines.transformers import TransformersBackend
from judges.items import Item
from judges.prompts import find
from judges.scoring import Prefix
from judges.spec import JudgeSpec, LocalModel


@dataclass(frozen=True)
class Way:
    """What one way of reading costs an item, and how far its expected scores are from the first way's."""

    way: str
    passes: float
    tokens: float
    seconds: float
    difference: float | None


class _EveryNode(ModelJudgeEngine):
    """Asks about every node of the trie, one by one."""

    _negligible = 0.0  # type: ignore[assignment]


class _OneByOne(TransformersBackend):
    """Reads no trie at once."""

    def trie_logprobs(
        self, prompts: Sequence[list[int]], wanted: Mapping[Prefix, tuple[int, ...]]
    ) -> list[dict[Prefix, dict[int, float]]] | None:
        return None


def compare(vllm: Any, model: Path, items: Sequence[Item]) -> list[Way]:
    """Every way over the same items; ``vllm`` is that backend, with the model of this folder loaded."""
    plain, at_once = (kind(engine_of(model, "transformers", "expected")) for kind in (_OneByOne, TransformersBackend))
    ways: list[tuple[str, type[ModelJudgeEngine], Any, str]] = [
        ("transformers, every node a pass", _EveryNode, plain, "expected"),
        ("transformers, nodes that matter", ModelJudgeEngine, plain, "expected"),
        ("transformers, two passes", ModelJudgeEngine, at_once, "expected"),
        ("transformers, text", ModelJudgeEngine, plain, "text"),
        ("vllm, every node a request", _EveryNode, vllm, "expected"),
        ("vllm, nodes that matter", ModelJudgeEngine, vllm, "expected"),
        ("vllm, text", ModelJudgeEngine, vllm, "text"),
    ]
    rows: list[Way] = []
    first: list[float] = []
    for way, engine, backend, scoring in ways:
        row, scores = _measured(way, engine, backend, _spec(model, backend, scoring), items)
        first = first or scores
        apart = max(abs(a - b) for a, b in zip(first, scores, strict=True)) if scores else None
        rows.append(Way(way, *row, apart))
    return rows


def table(rows: Sequence[Way]) -> str:
    """The ways as a table."""
    lines = ["| way | passes an item | tokens an item | ms an item | largest difference |", "|---|---|---|---|---|"]
    for row in rows:
        apart = "" if row.difference is None else f"{row.difference:.1e}"
        lines.append(f"| {row.way} | {row.passes:.1f} | {row.tokens:,.0f} | {1e3 * row.seconds:.1f} | {apart} |")
    return "\n".join(lines)


def engine_of(model: Path, kind: str, scoring: str) -> LocalModel:
    settings: dict[str, Any] = {"num_gpus": 0, "dtype": "float32", "min_valid_mass": 0.0}
    return LocalModel(kind=kind, model=str(model), template="asset", scoring=scoring, **settings)  # type: ignore[arg-type]


def _spec(model: Path, backend: Backend, scoring: str) -> JudgeSpec:
    kind = "transformers" if isinstance(backend, TransformersBackend) else "vllm"
    return JudgeSpec(name="tiny", scale=(0, 100), engine=engine_of(model, kind, scoring))


def _measured(
    way: str, kind: type[ModelJudgeEngine], backend: Any, spec: JudgeSpec, items: Sequence[Item]
) -> tuple[tuple[float, float, float], list[float]]:
    """Passes, tokens and seconds an item, and the expected scores; none where the answer is read as text."""
    engine = kind(spec, spec.engine, find("asset"), backend)  # type: ignore[arg-type]
    engine.score(items[:1])  # whatever is done once only is not counted
    count = Count()
    restore = count.watch(backend)
    if not isinstance(backend, TransformersBackend):
        backend._model.reset_prefix_cache()
    started = time.perf_counter()
    scores = engine.score(items)
    seconds = (time.perf_counter() - started) / len(items)
    restore()
    text = way.endswith("text")
    cost = count.passes / len(items), count.tokens / len(items), seconds
    return cost, [] if text else [float(score.score) for score in scores if score.score is not None]


@dataclass
class Count:
    """Passes and tokens of a backend, counted where its model is called."""

    passes: int = 0
    tokens: int = 0

    def watch(self, backend: Any) -> Callable[[], None]:
        """Count from now on, until the function that is returned is called."""
        if isinstance(backend, TransformersBackend):
            handle = backend._model.register_forward_pre_hook(self._forward, with_kwargs=True)
            return handle.remove
        generate = backend._model.generate

        def counted(*arguments: Any, **options: Any) -> Any:
            outputs = generate(*arguments, **options)
            for output in outputs:
                self.add(output)
            return outputs

        backend._model.generate = counted
        return lambda: setattr(backend._model, "generate", generate)

    def add(self, output: Any) -> None:
        """Count what vLLM did for one request."""
        written = len(output.outputs[0].token_ids)
        self.passes += written
        self.tokens += len(output.prompt_token_ids) - (output.num_cached_tokens or 0) + written - 1

    def _forward(self, _model: Any, _arguments: Any, options: Any) -> None:
        rows, columns = options["input_ids"].shape
        self.passes += rows
        self.tokens += rows * columns
