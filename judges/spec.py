"""What a judge is, as data: one YAML file.

Belongs here: the specification, its validation and its key. Does not: running it (``engines``).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from care_ops.errors import InputError

_FORBIDDEN_IN_NAMES = ("|", "...", "\n", "\r", "\t", ",")


@dataclass(frozen=True)
class Needs:
    """What a judge needs beside the items it scores; how it is run follows from this and from nothing else.

    Attributes
    ----------
    model : bool
        A model that is loaded here: a process of its own, and the GPUs that it names.
    endpoint : bool
        Somebody else's server: a key, money, and a model that may change without a word.
    template : bool
        A prompt template, the test set's scale to answer on, and a licence to be read; what fails may pass later.
    recordings : bool
        The test set's score file; it has nothing to say about other items.
    sandbox : bool
        A program that is not ours is kept from the rest of the machine.
    """

    model: bool = False
    endpoint: bool = False
    template: bool = False
    recordings: bool = False
    sandbox: bool = False


class EngineBase(BaseModel, ABC):
    """What all kinds of engines can be asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def needs(self) -> Needs:
        """What a judge of this engine needs."""
        return Needs()

    @property
    def gpus(self) -> float:
        """GPUs of one copy of it."""
        return 0.0

    @property
    def registered_program(self) -> str | None:
        """Name of the built-in program that it runs."""
        return None

    @property
    def recorded_as(self) -> str | None:
        """Name in the test set's score file."""
        return None

    @property
    def template_name(self) -> str | None:
        """Its own prompt template."""
        return None

    def with_template(self, _name: str | None) -> Self:
        """With a test set's prompt template, where it takes one and has none of its own."""
        return self

    @abstractmethod
    def key_content(self) -> dict[str, Any]:
        """What of this changes a score."""


class ProgramEngine(EngineBase):
    """A Python function: one registered with ``@program_judge``, or somebody else's file, run in the sandbox.

    Attributes
    ----------
    program : str, optional
        Name of a registered program.
    file : str, optional
        Python file that defines ``program_judge(query, response)``; relative to the workspace.
    timeout_s : float
        For one item, of a file.
    memory_mb : int
        For the process of a file.
    unsafe : bool
        Run the file without a sandbox, with all this user's rights.
    """

    kind: Literal["program"] = "program"
    program: str | None = Field(default=None, description="name of the registered program")
    file: str | None = None
    timeout_s: float = Field(default=1.0, gt=0)
    memory_mb: int = Field(default=1024, ge=64)
    unsafe: bool = False

    @model_validator(mode="after")
    def _one_of_two(self) -> ProgramEngine:
        if (self.program is None) == (self.file is None):
            raise ValueError("program: give either the name of a registered program or a file")
        return self

    @property
    def needs(self) -> Needs:
        return Needs(sandbox=self.file is not None and not self.unsafe)

    @property
    def registered_program(self) -> str | None:
        return self.program

    def key_content(self) -> dict[str, Any]:
        return {"kind": self.kind, "program": self.program or "file"}


class RecordedEngine(EngineBase):
    """Scores that people already have, read from a test set's score file."""

    kind: Literal["recorded"] = "recorded"
    column: str = Field(description="the judge's name in the score file")

    @property
    def needs(self) -> Needs:
        return Needs(recordings=True)

    @property
    def recorded_as(self) -> str | None:
        return self.column

    def key_content(self) -> dict[str, Any]:
        return self.model_dump()


class LanguageModel(EngineBase):
    """What all engines that ask a language model share.

    Attributes
    ----------
    model : str
        Repository, folder, or the endpoint's name of it.
    template : str, optional
        Prompt template; by default the test set's.
    scoring : {"expected", "mode", "text"}
        Mean or likeliest of the legal answers by their probabilities, or what the text says.
    orders : {"both", "given"}
        Whether pairs are shown both ways.
    min_valid_mass : float
        Less probability on legal answers is ``low_valid_mass``.
    max_tokens : int
        Of an answer that is read as text.
    profile : {"care", "paper-raw"}
        ``paper-raw`` is the paper's released form: raw text, eight tokens, the first number, one order.
    """

    model: str
    template: str | None = None
    scoring: Literal["expected", "mode", "text"] = "expected"
    prompt: Literal["auto", "chat", "raw"] = "auto"
    orders: Literal["both", "given"] = "both"
    min_valid_mass: float = Field(default=0.5, ge=0, le=1)
    max_tokens: int = Field(default=16, ge=1)
    profile: Literal["care", "paper-raw"] = "care"

    @model_validator(mode="before")
    @classmethod
    def _as_the_paper(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("profile") == "paper-raw":
            return {"prompt": "raw", "scoring": "text", "orders": "given", "max_tokens": 8, **data}
        return data

    @property
    def template_name(self) -> str | None:
        return self.template

    def with_template(self, name: str | None) -> Self:
        return self if self.template is not None else self.model_copy(update={"template": name})

    def key_content(self) -> dict[str, Any]:
        """What of this changes a score; where and how fast it runs does not."""
        names = ("kind", "model", "revision", "base_url", *LanguageModel.model_fields)
        return {name: value for name, value in self.model_dump().items() if name in names and name != "template"}


class LocalModel(LanguageModel):
    """A model that is loaded here, in vLLM or in transformers.

    Attributes
    ----------
    revision : str, optional
        Commit of the repository, 40 hexadecimal digits; a repository without one is refused.
    dtype : str
    max_length : int, optional
        Tokens of prompt and answer; the model's own by default.
    num_gpus : float
        GPUs of an actor; 0 for the CPU.
    gpu_memory : float
        Share of a GPU's memory that vLLM takes.
    """

    kind: Literal["vllm", "transformers"]
    revision: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    max_length: int | None = Field(default=None, ge=16)
    num_gpus: float = Field(default=1.0, ge=0)
    gpu_memory: float = Field(default=0.9, gt=0, le=1)

    @property
    def needs(self) -> Needs:
        return Needs(model=True, template=True)

    @property
    def gpus(self) -> float:
        return self.num_gpus


class OpenAIEngine(LanguageModel):
    """Any server that speaks the OpenAI chat completions protocol.

    Attributes
    ----------
    base_url : str
    api_key_env : str, optional
        Environment variable that holds the key; never written anywhere.
    requests_per_minute : float, optional
    concurrency : int
        Requests on their way at once.
    timeout_s : float
        Of a request.
    retries : int
        After a timeout, a 429 or a 5xx, with growing pauses.
    price_in, price_out : float
        US dollars a million tokens.
    spend_limit : float, optional
        US dollars a run and judge.
    """

    kind: Literal["openai"] = "openai"
    base_url: str
    api_key_env: str | None = "OPENAI_API_KEY"
    requests_per_minute: float | None = Field(default=None, gt=0)
    concurrency: int = Field(default=8, ge=1)
    timeout_s: float = Field(default=60.0, gt=0)
    retries: int = Field(default=4, ge=0)
    price_in: float = Field(default=0.0, ge=0)
    price_out: float = Field(default=0.0, ge=0)
    spend_limit: float | None = Field(default=None, gt=0)

    @property
    def needs(self) -> Needs:
        return Needs(endpoint=True, template=True)

    @model_validator(mode="after")
    def _limit_needs_prices(self) -> OpenAIEngine:
        if self.spend_limit is not None and self.price_in == 0 and self.price_out == 0:
            raise ValueError("spend_limit needs price_in and price_out, in US dollars a million tokens")
        if self.prompt == "raw":
            raise ValueError("prompt: a chat endpoint takes no raw prompts; leave it out")
        return self


EngineSpec = Annotated[ProgramEngine | RecordedEngine | LocalModel | OpenAIEngine, Field(discriminator="kind")]


class JudgeSpec(BaseModel):
    """One judge.

    Attributes
    ----------
    name : str
        Unique in the workspace; also a partition key.
    family : str, optional
        Base model, vendor or prompt family. Declared, never guessed.
    license : str, optional
        Terms of the model; `care doctor` names judges without one.
    scale : (low, high), optional
        Scores outside it are kept as missing with status ``out_of_range``.
    testsets : list of str, optional
        The test sets it scores; all by default.
    engine : ProgramEngine, RecordedEngine, LocalModel or OpenAIEngine
    batch_size : int
        Items a batch; a batch is the unit that a kill can lose.
    attempts : int
        How often a language model is asked about an item in all, where its failures may pass (timeouts, errors of the
        engine or the endpoint); each run asks once.
    most_failing : float
        Share of a batch that may fail so; beyond it a language model stops, and the next run goes on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    family: str | None = None
    description: str = ""
    license: str | None = None
    scale: tuple[float, float] | None = None
    testsets: tuple[str, ...] | None = None
    engine: EngineSpec
    batch_size: int = Field(default=256, ge=1)
    attempts: int = Field(default=5, ge=1)
    most_failing: float = Field(default=0.5, gt=0, le=1)

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
            The version of what the engine runs: a program's source, recorded scores, the prompt's template.

        Notes
        -----
        Name, family, licence, description, test sets, batch size, how often it is asked again, and where and how fast a
        model runs do not change a score and are left out.
        """
        content = {"engine": self.engine.key_content(), "scale": self.scale, "revision": revision}
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
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid YAML ({error})") from error
    if data is None:
        raise InputError(f"{path}: is empty; write {{}} into it if nothing is to be declared")
    if not isinstance(data, dict):
        raise InputError(f"{path}: must hold a mapping of fields, found {type(data).__name__}")
    return data  # type: ignore[no-any-return]


def explain(error: ValidationError) -> str:
    """One line a problem: field and what is wrong with it."""
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'file'}: {problem['msg']}" for problem in error.errors()
    )
