"""Construction of engines, and versions of the judges' programs and prompt templates."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from care_ops.errors import InputError, JudgeError
from judges.engines.base import Context, Engine
from judges.spec import JudgeSpec, LocalModel, OpenAIEngine, ProgramEngine, RecordedEngine

if TYPE_CHECKING:
    from judges.engines.vllm import VllmBackend

    LoadedModels = dict[tuple[object, ...], VllmBackend]

_SMALL_FILE = 8 * 2**20
"""Maximum size in bytes of a model file that is hashed by its content."""


def revision_of(spec: JudgeSpec, context: Context | None = None) -> str:
    """Return a judge's revision: the version of its program, or of its prompt template and model folder.

    Raises ``JudgeError`` or ``InputError`` if the program or template is missing, or the scores come from a file.
    """
    context = context or Context()
    match spec.engine:
        case ProgramEngine(file=None) as engine:
            from judges.programs import find

            return find(engine.program or "").revision
        case ProgramEngine() as engine:
            return file_hash(context.path(engine.file or ""))
        case RecordedEngine():
            raise JudgeError(f"judge {spec.name!r} has recorded scores, so it has no revision; use their hash instead")
        case LocalModel() | OpenAIEngine() as engine:
            template = context.template(spec)
            template.answers(spec.scale)
            folder = context.path(engine.model)
            return f"{template.revision} {_folder_hash(folder)}" if folder.is_dir() else template.revision


def must_exist(spec: JudgeSpec, context: Context) -> None:
    """Check offline that a judge's program or template exists, and that a Hugging Face model is pinned to a commit.

    Raises ``JudgeError`` or ``InputError`` if the program, the template or the commit is missing.
    """
    engine = spec.engine
    if isinstance(engine, ProgramEngine):
        revision_of(spec, context)
    elif not isinstance(engine, RecordedEngine) and engine.template is not None:
        context.template(spec)
    if isinstance(engine, LocalModel):
        _must_be_pinned(spec, engine, context)


def build_engine(spec: JudgeSpec, context: Context | None = None, models: LoadedModels | None = None) -> Engine:
    """Build the engine of a judge; take its model from the cache ``models``, or load the model and add it to the cache.

    Raises ``JudgeError`` or ``InputError`` if a program, model or template is missing, or the scores come from a file.
    """
    context = context or Context()
    match spec.engine:
        case ProgramEngine(file=None) as engine:
            from judges.engines.program import ProgramJudgeEngine

            return ProgramJudgeEngine(engine.program or "", spec.scale)
        case ProgramEngine() as engine:
            from judges.engines.program import SandboxedJudgeEngine

            return SandboxedJudgeEngine(engine, context.program(engine), spec.scale)
        case RecordedEngine():
            raise JudgeError(
                f"judge {spec.name!r} cannot score new items, because its scores are read from a file; add the scores "
                "of these items to the file, or choose another judge"
            )
        case OpenAIEngine() as engine:
            from judges.engines.openai import OpenAIJudgeEngine

            return OpenAIJudgeEngine(spec, engine, context)
        case LocalModel() as engine:
            template = context.template(spec)
            _must_be_pinned(spec, engine, context)
            from judges.engines.model import ModelJudgeEngine
            from judges.engines.vllm import VllmBackend

            models = {} if models is None else models
            if engine.loaded not in models:
                models[engine.loaded] = VllmBackend(engine)
            return ModelJudgeEngine(spec, engine, template, models[engine.loaded])


def _must_be_pinned(spec: JudgeSpec, engine: LocalModel, context: Context) -> None:
    if not context.path(engine.model).is_dir() and engine.revision is None:
        raise JudgeError(
            f"judge {spec.name!r}: {engine.model!r} is not a folder on this machine; correct the path, or if it is a "
            "Hugging Face repository, add revision: COMMIT (40 hexadecimal digits) to the judge's engine"
        )


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes; raise ``InputError`` if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); correct the path in the judge's YAML") from error


def _folder_hash(folder: Path) -> str:
    """Hash a model's folder: the bytes of small files, and the size and modification time of large files."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        status = path.stat()
        small = status.st_size <= _SMALL_FILE
        digest.update(f"{path.relative_to(folder)} {status.st_size}".encode())
        digest.update(path.read_bytes() if small else str(status.st_mtime_ns).encode())
    return digest.hexdigest()
