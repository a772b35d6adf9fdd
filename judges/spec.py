"""What a judge is, as data: one YAML file.

Belongs here: the specification, its validation and its key. Does not: running it (``engines``).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from care_ops.errors import InputError

_FORBIDDEN_IN_NAMES = ("|", "...", "\n", "\r", "\t", ",")


class ProgramEngine(BaseModel):
    """A Python function registered with ``@program_judge``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["program"] = "program"
    program: str = Field(description="name of the registered program")


class RecordedEngine(BaseModel):
    """Scores that people already have, read from a test set's score file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["recorded"] = "recorded"
    column: str = Field(description="the judge's name in the score file")


EngineSpec = Annotated[ProgramEngine | RecordedEngine, Field(discriminator="kind")]


class JudgeSpec(BaseModel):
    """One judge.

    Attributes
    ----------
    name : str
        Unique in the workspace; also a partition key.
    family : str, optional
        Base model, vendor or prompt family. Declared, never guessed.
    scale : (low, high), optional
        Scores outside it are kept as missing with status ``out_of_range``.
    testsets : list of str, optional
        The test sets it scores; all by default.
    engine : ProgramEngine or RecordedEngine
    batch_size : int
        Items a batch; a batch is the unit that a kill can lose.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    family: str | None = None
    description: str = ""
    scale: tuple[float, float] | None = None
    testsets: tuple[str, ...] | None = None
    engine: EngineSpec
    batch_size: int = Field(default=256, ge=1)

    @field_validator("name")
    @classmethod
    def _usable_name(cls, name: str) -> str:
        if not name.strip() or any(mark in name for mark in _FORBIDDEN_IN_NAMES):
            raise ValueError(
                f"judge name {name!r} is empty or holds one of | ... , tab or newline, which partition keys "
                "cannot; choose another"
            )
        return name

    @model_validator(mode="after")
    def _ordered_scale(self) -> JudgeSpec:
        if self.scale is not None and not self.scale[0] < self.scale[1]:
            raise ValueError(f"scale must be [low, high] with low < high, got {list(self.scale)}")
        return self

    def scores(self, testset: str) -> bool:
        """Whether the judge scores this test set."""
        return self.testsets is None or testset in self.testsets

    def key(self, revision: str) -> str:
        """Content key of a score made by this judge (law 5).

        Parameters
        ----------
        revision : str
            The version of what the engine runs: a program's source hash, the hash of recorded scores.

        Notes
        -----
        Name, family, description, test sets and batch size do not change a score and are left out.
        """
        content = {"engine": self.engine.model_dump(), "scale": self.scale, "revision": revision}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def load_spec(path: Path) -> JudgeSpec:
    """Read one judge's YAML file.

    Raises
    ------
    InputError
        Not a readable, valid specification; the message names file and field.
    """
    data = load_yaml(path)
    data.setdefault("name", path.stem)
    try:
        return JudgeSpec.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{path}: {explain(error)}") from error


def load_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping; ``InputError`` names the file and what to do."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid YAML ({error})") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: must hold a mapping of fields, found {type(data).__name__}")
    return data  # type: ignore[no-any-return]


def explain(error: ValidationError) -> str:
    """One line a problem: field and what is wrong with it."""
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'file'}: {problem['msg']}" for problem in error.errors()
    )
