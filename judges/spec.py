"""Specifications of judges; each judge has one YAML file."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from judges.prices import Price, listed

LIKE_A_KEY = re.compile("auth|key|token|secret|passw|credential|cookie", re.IGNORECASE)
_FORBIDDEN_IN_NAMES = ("|", "...", ",", *map(chr, range(32)), "\x7f")


@dataclass(frozen=True)
class Needs:
    """Requirements of a judge that determine how CARE runs the judge.

    Attributes
    ----------
    model : bool
        Whether the judge loads a model in a separate process, with the GPUs that the judge's file requests.
    endpoint : bool
        Whether the judge sends requests to a remote server. The server may require an API key, cost money, and change
        its model without notice.
    template : bool
        Whether the judge is a language model. Such a judge needs a prompt template, a scale, and a licence that a
        person has read. Its failures may be temporary.
    recordings : bool
        Whether the judge's scores are read from the test set's score file. Such a judge cannot score other items.
    """

    model: bool = False
    endpoint: bool = False
    template: bool = False
    recordings: bool = False


class EngineBase(BaseModel, ABC):
    """Base class of the settings of all engines."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    needs: ClassVar[Needs] = Needs()
    """Requirements of judges with this engine."""

    @property
    def gpus(self) -> float:
        """Number of GPUs that one copy of the engine uses."""
        return 0.0

    @property
    def loaded(self) -> tuple[Any, ...]:
        """Settings of the model that the engine loads; engines with equal settings share one loaded model."""
        return ()

    @property
    def recorded_as(self) -> str | None:
        """Name of the judge in the test set's score file, or None if the scores are not recorded."""
        return None

    @abstractmethod
    def key_content(self) -> dict[str, Any]:
        """Return the settings that can change a score; they are part of the judge's key."""


class ProgramEngine(EngineBase):
    """Engine that calls a Python function: a registered program, or a file that runs in the sandbox.

    Attributes
    ----------
    program : str, optional
        Name of a program registered with ``@program_judge``.
    file : str, optional
        Path of a Python file that defines ``program_judge(query, response)``, relative to the workspace.
    timeout_s : float
        Maximum time in seconds for one item; applies only to ``file``.
    memory_mb : int
        Maximum memory of the process in megabytes; applies only to ``file``.
    unsafe : bool
        Whether the file runs without a sandbox, with all permissions of the user who runs CARE.
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
            raise ValueError("program: set exactly one of program (the name of a registered program) and file")
        return self

    def key_content(self) -> dict[str, Any]:
        return {"kind": self.kind, "program": self.program or "file"}


class RecordedEngine(EngineBase):
    """Engine of a judge whose scores are read from a test set's score file."""

    needs: ClassVar[Needs] = Needs(recordings=True)
    kind: Literal["recorded"] = "recorded"
    column: str = Field(description="the judge's name in the score file")

    @property
    def recorded_as(self) -> str | None:
        return self.column

    def key_content(self) -> dict[str, Any]:
        return self.model_dump()


class LanguageModel(EngineBase):
    """Common settings of all engines with a language model.

    Attributes
    ----------
    model : str
        Repository on the hub, local folder, or name of the model at the endpoint.
    template : str, optional
        Name of the prompt template; by default the test set's template.
    scoring : {"expected", "mode", "text"}
        ``expected`` is the mean of the allowed answers, weighted by the model's probabilities. ``mode`` is the most
        probable answer. ``text`` is the answer in the text that the model writes.
    prompt : {"auto", "chat", "raw"}
        Whether prompts are sent in the model's chat format or unchanged; ``auto`` uses the format if the model has one.
    orders : {"both", "given"}
        Whether the two responses of a pair are shown in both orders or only in the given order.
    min_valid_mass : float
        Minimum total probability of the allowed answers, in [0, 1]; below it, the status is ``low_valid_mass``.
    max_tokens : int
        Maximum number of tokens of an answer that is read as text.
    profile : {"care", "paper", "paper-raw"}
        ``care`` is CARE's method. ``paper`` uses the paper's prompts, without chat format and in one order, and reads
        the first number in at most eight tokens. ``paper-raw`` is the paper's method with CARE's prompts.
    fence : bool
        Whether to enclose the item's texts in unique delimiters, against injection, and to tell the model to ignore
        instructions in the texts. `care judges new` writes this setting, which is part of the judge's key.
    """

    model: str
    template: str | None = None
    scoring: Literal["expected", "mode", "text"] = "expected"
    prompt: Literal["auto", "chat", "raw"] = "auto"
    orders: Literal["both", "given"] = "both"
    min_valid_mass: float = Field(default=0.5, ge=0, le=1)
    max_tokens: int = Field(default=16, ge=1)
    profile: Literal["care", "paper", "paper-raw"] = "care"
    fence: bool = False

    @model_validator(mode="before")
    @classmethod
    def _as_the_paper(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("profile") in ("paper", "paper-raw"):
            prompt = "auto" if data.get("kind") == "openai" else "raw"  # a chat endpoint accepts no raw prompts
            return {"prompt": prompt, "scoring": "text", "orders": "given", "max_tokens": 8, **data}
        return data

    @model_validator(mode="after")
    def _paper_has_no_fence(self) -> Self:
        if self.fence and self.profile != "care":
            raise ValueError(f"fence: true cannot be combined with profile: {self.profile}; remove one of them")
        return self

    def with_template(self, name: str | None) -> Self:
        """Return these settings with ``name`` as prompt template, unless they already name a template."""
        return self if self.template is not None else self.model_copy(update={"template": name})

    def key_content(self) -> dict[str, Any]:
        names = ("kind", "model", "revision", "base_url", *LanguageModel.model_fields)
        in_revision = ("template", "fence")
        return {name: value for name, value in self.model_dump().items() if name in names and name not in in_revision}


SPEED_ONLY = frozenset(
    """
    block_size cpu_offload_gb disable_custom_all_reduce distributed_executor_backend enable_chunked_prefill
    enforce_eager max_num_batched_tokens max_num_seqs pipeline_parallel_size tensor_parallel_size
    """.split()
)
"""Options of vLLM that affect speed and memory but cannot change an answer."""

RESERVED = frozenset(
    """
    dtype enable_prefix_caching gpu_memory_utilization load_format max_model_len model revision seed trust_remote_code
    """.split()
)
"""Options of vLLM that other settings of the judge determine, or that must not change."""

Option = str | int | float | bool


def _frozen_options(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if reserved := sorted(RESERVED & set(value)):
        raise ValueError(f"vllm: {', '.join(reserved)} cannot be set here; remove these options from `vllm`")
    return tuple(sorted(value.items()))


FrozenOptions = Annotated[tuple[tuple[str, Option], ...], BeforeValidator(_frozen_options)]


class LocalModel(LanguageModel):
    """Engine that loads a model with vLLM on this machine or cluster.

    Attributes
    ----------
    revision : str, optional
        Commit of the repository, as 40 hexadecimal digits; a repository without a commit is refused.
    dtype : str
        Data type of the weights; ``auto`` leaves the choice to the engine.
    max_length : int, optional
        Maximum total number of tokens of a prompt and its answer; by default the model's maximum.
    num_gpus : float
        Number of GPUs that each Ray actor uses; 0 runs the model on the CPU, and 0.5 puts two models on one GPU. On
        several GPUs, vLLM uses tensor parallelism, unless ``vllm`` sets another parallelism.
    vllm : mapping
        Further arguments of ``vllm.LLM``, such as ``quantization`` or ``max_num_seqs``. They are part of the judge's
        key, except the options in ``SPEED_ONLY``.
    """

    needs: ClassVar[Needs] = Needs(model=True, template=True)
    kind: Literal["vllm"]
    revision: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    max_length: int | None = Field(default=None, ge=16)
    num_gpus: float = Field(default=1.0, ge=0)
    vllm: FrozenOptions = Field(default=())

    @model_validator(mode="after")
    def _gpus_are_used(self) -> LocalModel:
        if self.gpus > 1 and not self.gpus.is_integer():
            raise ValueError(f"num_gpus must be a whole number or a fraction below 1, not {self.gpus:g}")
        return self

    @property
    def gpus(self) -> float:
        return self.num_gpus

    @property
    def loaded(self) -> tuple[Any, ...]:
        asked = LanguageModel.model_fields.keys() - {"model"}
        return tuple(getattr(self, name) for name in LocalModel.model_fields if name not in asked)

    def key_content(self) -> dict[str, Any]:
        content = super().key_content()
        options = {name: value for name, value in self.vllm if name not in SPEED_ONLY}
        return {**content, "vllm": options} if options else content


BATCH_DISCOUNT = 0.5
"""Batch price as a share of the normal price, from vendors' price lists of November 2026."""


class OpenAIEngine(LanguageModel):
    """Engine that sends requests to a server with OpenAI's chat completions API or a vendor's own API.

    Attributes
    ----------
    base_url : str
        URL of the server, without the last part of the path (``/chat/completions``, ``/messages``, ``/models``).
    form : {"anthropic", "google"}, optional
        Vendor's own API: messages (Anthropic) or generateContent (Google). By default, OpenAI's API.
    api_key_env : str, optional
        Name of the environment variable that contains the API key. CARE never writes the key anywhere.
    headers : mapping of str to str
        Further headers of each request. CARE replaces ``${NAME}`` in a value by an environment variable, and hides
        the value like the API key.
    extra_body : mapping
        Further fields of each request; they are part of the judge's key.
    reasoning_effort : str, optional
        Reasoning effort, as the endpoint names it. It is part of the judge's key.
    revision : str, optional
        Label of the model's version. Change the label when the model changes; CARE then scores all items again.
    model_must_be : str, optional
        Name of the only model that may answer (default: any model). The answering model is stored with the scores.
    requests_per_minute : float, optional
        Maximum number of requests that are started in a minute.
    concurrency : int
        Maximum number of open requests; HTTP 429 lowers this number temporarily.
    timeout_s : float
        Maximum time in seconds until the complete response to a request has arrived.
    retries : int
        Maximum number of retries of a request after a timeout, an invalid response or HTTP 5xx. After HTTP 429, the
        maximum is twice as high. Retries use exponential backoff.
    price_in, price_out, price_cached : float, optional
        Prices of input, output and cached input tokens in US dollars per million tokens; 0 for a free endpoint. By
        default, cached input costs the same as other input, and prices come from the table ``judges/prices.yaml``.
    spend_limit : float, optional
        Maximum amount in US dollars that the judge may spend in one run. CARE does not run a judge with a limit but
        without prices.
    batch : bool
        Whether to send questions in batch files (OpenAI's Batch API), which are answered within a day at half the
        listed price. Prices in the judge's file must then be batch prices.
    repeats : int
        Number of times that the judge scores each item; the final score is the mean, and the report shows how often
        the scores differ. This number is part of the judge's key.
    """

    needs: ClassVar[Needs] = Needs(endpoint=True, template=True)
    kind: Literal["openai"] = "openai"
    base_url: str
    api_key_env: str | None = Field(default="OPENAI_API_KEY", pattern="^[A-Za-z_][A-Za-z0-9_]*$")
    form: Literal["anthropic", "google"] | None = None
    headers: dict[str, str] = Field(default={})
    extra_body: dict[str, Any] = Field(default={})
    reasoning_effort: str | None = None
    revision: str | None = None
    model_must_be: str | None = None
    requests_per_minute: float | None = Field(default=None, gt=0)
    concurrency: int = Field(default=8, ge=1)
    timeout_s: float = Field(default=60.0, gt=0)
    retries: int = Field(default=4, ge=0)
    price_in: float | None = Field(default=None, ge=0)
    price_out: float | None = Field(default=None, ge=0)
    price_cached: float | None = Field(default=None, ge=0)
    spend_limit: float | None = Field(default=None, gt=0)
    batch: bool = False
    repeats: int = Field(default=1, ge=1, le=100)

    def key_content(self) -> dict[str, Any]:
        """Return the settings that can change a score; omit optional settings with default values."""
        names = ("extra_body", "form", "reasoning_effort", "revision", "repeats")
        more = {name: getattr(self, name) for name in names}
        common = {name: value for name, value in super().key_content().items() if name not in more}
        return common | {name: value for name, value in more.items() if value and value != 1}

    @property
    def price(self) -> Price | None:
        """Price of tokens from the judge's file or ``prices.yaml``; None if the price is unknown."""
        if self.price_in is None or self.price_out is None:
            return listed(self.base_url, self.model) if self.price_in is self.price_out else None
        cached = self.price_in if self.price_cached is None else self.price_cached
        return Price(self.price_in, cached, self.price_out, "the judge's file")

    @property
    def batch_price(self) -> Price | None:
        """Price of tokens in a batch: the price in the judge's file or half the listed price; None if unknown."""
        return self.price if self.price is None or self.price_in is not None else self.price.at(BATCH_DISCOUNT)

    @property
    def where(self) -> str:
        """URL of the endpoint without the user name, the password and the query string; any of them may be secret."""
        return re.sub("//[^/]*@", "//***@", self.base_url).partition("?")[0]

    @model_validator(mode="after")
    def _settings_agree(self) -> OpenAIEngine:
        if self.price_cached is not None and None in (self.price_in, self.price_out):
            raise ValueError("price_cached: price_in and price_out are missing; set them too")
        if self.spend_limit is not None and self.price_in == 0 and self.price_out == 0:
            raise ValueError("spend_limit needs a price above 0; set price_in and price_out, or remove spend_limit")
        if self.prompt == "raw":
            raise ValueError("prompt: a chat endpoint accepts no raw prompts; remove this setting")
        if self.form and self.reasoning_effort:
            raise ValueError(
                f"reasoning_effort: the API of {self.form} has its own field for this; write that field into extra_body"
            )
        if self.form and self.batch:
            raise ValueError(f"batch: CARE sends no batch files to the API of {self.form}; remove batch")
        if taken := sorted({"messages", "model", "n", "stream"} & set(self.extra_body)):
            raise ValueError(f"extra_body: {', '.join(taken)} cannot be set here; remove these fields")
        return self


EngineSpec = Annotated[ProgramEngine | RecordedEngine | LocalModel | OpenAIEngine, Field(discriminator="kind")]


class JudgeSpec(BaseModel):
    """Specification of one judge.

    Attributes
    ----------
    name : str
        Name of the judge, unique in the workspace; it is also the judge's Dagster partition key.
    family : str, optional
        Base model, vendor or prompt family, as you declare it; CARE never guesses the family.
    license : str, optional
        Licence of the model; `care doctor` lists judges without a declared licence.
    scale : (low, high), optional
        Range of scores; a score outside the range is missing, with status ``out_of_range``.
    testsets : list of str, optional
        Names of the test sets that the judge scores; by default all test sets.
    batch_size : int
        Number of items in a batch; a killed run loses only its unfinished batches.
    attempts : int
        Maximum number of runs that ask a language model about an item with temporary failures (timeouts, errors of
        the engine or the endpoint). Each run asks once. If a run stops the judge (see ``most_failing``), the first
        failure of an item does not count.
    most_failing : float
        Maximum share of temporary failures in a batch. With more failures, CARE stops the judge if it is a language
        model, and the next run continues with the remaining items.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

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

    @field_validator("engine", mode="before")
    @classmethod
    def _not_transformers(cls, engine: Any) -> Any:
        if isinstance(engine, dict) and engine.get("kind") == "transformers":
            raise ValueError(
                "kind: transformers no longer exists; write kind: vllm (num_gpus: 0 for the CPU), or kind: "
                "openai with the base_url of a server such as Ollama or llama.cpp"
            )
        return engine

    @field_validator("name")
    @classmethod
    def _usable_name(cls, name: str) -> str:
        if not name.strip() or any(mark in name for mark in _FORBIDDEN_IN_NAMES):
            raise ValueError(
                f"judge name {name!r} is empty or contains |, a comma, three dots or a control character, which "
                "a partition key cannot contain; choose another name"
            )
        return name

    @model_validator(mode="after")
    def _ordered_scale(self) -> JudgeSpec:
        if self.scale is not None and not self.scale[0] < self.scale[1]:
            raise ValueError(f"scale must be [low, high] with low < high, not {list(self.scale)}")
        return self

    @classmethod
    def recorded(cls, column: str, family: str | None, testset: str) -> JudgeSpec:
        """Build a judge with recorded scores in ``column``; its name omits characters that partition keys forbid."""
        name = column
        for mark in filter(column.__contains__, _FORBIDDEN_IN_NAMES):
            name = " ".join(name.replace(mark, " ").split())
        return cls(name=name, family=family, testsets=(testset,), engine=RecordedEngine(column=column))

    def shown(self) -> str:
        """Return the specification as JSON, with ``***`` in place of every value that may be an API key."""
        shown = self.model_dump(mode="json")
        if isinstance(self.engine, OpenAIEngine):
            headers, fields = dict.fromkeys(self.engine.headers, "***"), masked(self.engine.extra_body, [])
            shown["engine"] |= {"headers": headers, "base_url": self.engine.where, "extra_body": fields}
        return json.dumps(shown)

    def scores(self, testset: str) -> bool:
        """Return whether the judge scores a test set."""
        return self.testsets is None or testset in self.testsets

    def key(self, revision: str) -> str:
        """Return the content key of the judge: a hash (32 hexadecimal digits) of all settings that can change a score.

        ``revision`` is the version of a program's source, the recorded scores or the prompt template. The key does not
        depend on name, family, licence, description, test sets, batch size, number of attempts, or settings
        that affect only where and how fast a model runs.
        """
        content = {"engine": self.engine.key_content(), "scale": self.scale, "revision": revision}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def masked(value: Any, secrets: list[str], name: str = "") -> Any:
    """Copy ``value`` with ``***`` for texts in fields named like API keys; append these texts to ``secrets``."""
    if isinstance(value, dict):
        return {key: masked(each, secrets, str(key)) for key, each in value.items()}
    if not isinstance(value, str) or not LIKE_A_KEY.search(name):
        return value
    secrets.append(value)
    return "***"
