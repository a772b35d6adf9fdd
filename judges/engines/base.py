"""The protocol that engines share.

Belongs here: the interface, the version of what a judge runs, building an engine from a specification.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from care_ops.errors import InputError, JudgeError
from judges.items import Item, Score
from judges.prompts import Template, find
from judges.spec import JudgeSpec, LanguageModel, OpenAIEngine, ProgramEngine, RecordedEngine

_SMALL_FILE = 8 * 2**20


class Recording(NamedTuple):  # there are millions: a dataclass takes three times as long to make
    """One recorded score: the value, and the text it was given for where the source keeps it."""

    value: float | None
    response: str | None = None


class SpendLimitError(JudgeError):
    """No more money may be spent in this run; ``scores`` are those of the batch that were paid for."""

    def __init__(self, message: str, scores: Sequence[Score] = ()) -> None:
        super().__init__(message)
        self.scores = list(scores)


@dataclass
class Ledger:
    """US dollars that a judge has spent in this run."""

    spent: float = 0.0


@dataclass(frozen=True)
class Context:
    """What an engine is given beside its specification.

    Attributes
    ----------
    root : Path
        Relative paths of programs start here; templates lie in ``root / "prompts"``.
    recordings : mapping item_id -> Recording, optional
        What a recorded judge reads from.
    ledger : Ledger, optional
        What a paid judge has spent, over the test sets of a run.
    """

    root: Path = Path()
    recordings: Mapping[str, Recording] | None = None
    ledger: Ledger | None = None

    def path(self, name: str) -> Path:
        """A file of the workspace."""
        return (self.root / name).absolute()

    def template(self, spec: JudgeSpec) -> Template:
        """The prompt template of a judge that is a language model."""
        assert isinstance(spec.engine, LanguageModel)
        if spec.engine.template is None:
            raise InputError(
                f"judge {spec.name!r} has no prompt template, nor has the test set; add template: NAME to the judge's "
                "engine, or prompt: NAME to the test set"
            )
        return find(spec.engine.template, self.root / "prompts")


class Engine(Protocol):
    """Scores batches of items.

    Attributes
    ----------
    version : str
        Recorded beside each score, not part of the key.
    """

    version: str

    def score(self, items: Sequence[Item]) -> list[Score]:
        """One score for each item, in order. An item that fails gets a status, not an exception."""
        ...

    def close(self) -> None:
        """End what the engine started; it cannot score any more."""
        ...


def revision_of(spec: JudgeSpec, context: Context | None = None) -> str:
    """Version of what a judge runs, without loading it; part of the judge's key.

    Raises
    ------
    JudgeError, InputError
        The program, its file or the prompt template is not there.
    """
    context = context or Context()
    engine = spec.engine
    if isinstance(engine, ProgramEngine):
        if engine.file is not None:
            return file_hash(context.path(engine.file))
        from judges.programs import find

        return find(engine.program or "").revision
    if isinstance(engine, RecordedEngine):
        from judges.engines.recorded import fingerprint, known

        return fingerprint(known(spec, context.recordings))
    template = context.template(spec)
    template.answers(spec.scale)
    folder = Path(engine.model)
    return f"{template.revision} {_folder_hash(folder)}" if folder.is_dir() else template.revision


def build_engine(spec: JudgeSpec, context: Context | None = None) -> Engine:
    """The engine of a judge, ready to score.

    Parameters
    ----------
    spec : JudgeSpec
    context : Context, optional
        Where files and templates are, and what a recorded judge reads from.

    Raises
    ------
    JudgeError, InputError
        The program is not registered, a recorded judge has no recordings, a model or a template is not there.
    """
    context = context or Context()
    engine = spec.engine
    if isinstance(engine, ProgramEngine):
        if engine.file is not None:
            from judges.engines.sandboxed import SandboxedJudgeEngine

            return SandboxedJudgeEngine(engine, context.path(engine.file), spec.scale)
        from judges.engines.program import ProgramJudgeEngine

        return ProgramJudgeEngine(engine.program or "", spec.scale)
    if isinstance(engine, RecordedEngine):
        from judges.engines.recorded import RecordedJudgeEngine

        return RecordedJudgeEngine(spec, context.recordings)
    template = context.template(spec)
    if isinstance(engine, OpenAIEngine):
        from judges.engines.openai import OpenAIJudgeEngine

        return OpenAIJudgeEngine(spec, template, context.ledger)
    if not Path(engine.model).is_dir() and engine.revision is None:
        raise JudgeError(
            f"judge {spec.name!r}: {engine.model!r} is no folder here, and a repository needs revision: its commit, 40 "
            "hexadecimal digits, so that scores say what made them"
        )
    from judges.engines.model import ModelJudgeEngine

    if engine.kind == "vllm":
        from judges.engines.vllm import VllmBackend as Backend
    else:
        from judges.engines.transformers import TransformersBackend as Backend
    return ModelJudgeEngine(spec, template, Backend(engine))


def file_hash(path: Path) -> str:
    """SHA-256 of a file; ``InputError`` where there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); correct the path in the judge's YAML") from error


def _folder_hash(folder: Path) -> str:
    """Of a model's folder: the bytes of small files, and of large ones size and time of change."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        facts = path.stat()
        small = facts.st_size <= _SMALL_FILE
        digest.update(f"{path.relative_to(folder)} {facts.st_size}".encode())
        digest.update(path.read_bytes() if small else str(facts.st_mtime_ns).encode())
    return digest.hexdigest()
