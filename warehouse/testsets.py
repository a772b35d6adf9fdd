"""What a test set is, as data: one YAML file.

Belongs here: the specification and its validation. Does not: reading the files it names (``sources``).
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from care_ops.errors import InputError

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_FORBIDDEN_IN_NAMES = ("|", "...", "\n", "\r", "\t", ",", "/")


class ItemColumns(BaseModel):
    """Which column of the item file is what. What is not named becomes metadata."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    item_id: str = "item_id"
    prompt: str | None = None
    response: str | None = None
    response_2: str | None = None
    reference: str | None = None
    aspect: str | None = Field(default=None, description="what a judge is to look at, where it differs by item")
    gold: str | None = None
    split_unit: str | None = None


class ScoreColumns(BaseModel):
    """Which column of the score file is what."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    item_id: str = "item_id"
    judge: str = "judge"
    score: str = "score"
    response: str | None = Field(default=None, description="the text that was scored, to be compared")


class RecordedScores(BaseModel):
    """A file of scores that exist already."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    layout: Literal["auto", "long", "wide"] = "auto"
    columns: ScoreColumns = ScoreColumns()
    judges: str | None = Field(default=None, description="regular expression; only judges that match")
    family_pattern: str | None = Field(
        default=None, description="regular expression on the judge's name; its first group is the family"
    )
    families: dict[str, str] = {}

    def accepts(self, judge: str) -> bool:
        """Whether the judge is among the ones wanted."""
        return self.judges is None or re.search(self.judges, judge) is not None

    def family(self, judge: str) -> str | None:
        """Family of a judge as declared here."""
        if judge in self.families:
            return self.families[judge]
        match = re.search(self.family_pattern, judge) if self.family_pattern else None
        return match.group(1) if match else None


class FilesSource(BaseModel):
    """Items, and optionally scores, in files (CSV, Parquet, JSONL)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["files"] = "files"
    items: str
    columns: ItemColumns = ItemColumns()
    where: dict[str, str | int | float] = {}
    drop: tuple[str, ...] = Field(default=(), description="columns never read, such as ones that leak gold")
    scores: RecordedScores | None = None


class DemoSource(BaseModel):
    """The embedded demo."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["demo"] = "demo"
    countries: int = Field(default=30, ge=1, le=30)
    answers: int = Field(default=12, ge=1)
    seed: int = 20260


class GoldRule(BaseModel):
    """How an item's gold follows from its row.

    Attributes
    ----------
    mean_of : tuple of str
        Columns, or paths into them; the mean of the numbers there.
    values : dict str -> float
        What a word stands for.
    above : float, optional
        Gold is 1 above it, else 0.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mean_of: tuple[str, ...] = Field(min_length=1)
    values: dict[str, float] = {}
    above: float | None = None


class PreferredPair(BaseModel):
    """Two columns, the better and the worse response; which is shown first is drawn by the item's text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    better: str
    worse: str


class HuggingFaceSource(BaseModel):
    """A data set of the Hugging Face hub, or a folder of one.

    Attributes
    ----------
    dataset : str
        Repository, or folder.
    revision : str, optional
        Commit, 40 hexadecimal digits; a repository without one is refused.
    columns : ItemColumns
        Columns or paths into them: ``info.post``, ``conversation_a[1].content``.
    gold : GoldRule, optional
    pair : PreferredPair, optional
        Instead of gold and the two responses: gold is 1 where the second one shown is the better.
    sample : int, optional
        Items drawn without replacement, by ``seed``.
    verified : bool
        The column names were compared with the data at this revision; ``checked`` says where.
    license : str
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["huggingface"] = "huggingface"
    dataset: str
    config: str | None = None
    split: str
    revision: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    columns: ItemColumns = ItemColumns()
    where: dict[str, str | int | float] = {}
    gold: GoldRule | None = None
    pair: PreferredPair | None = None
    sample: int | None = Field(default=None, ge=1)
    seed: int = 0
    verified: bool = False
    checked: str = ""
    license: str = ""


Source = Annotated[FilesSource | DemoSource | HuggingFaceSource, Field(discriminator="kind")]


class CalibrationSettings(BaseModel):
    """``calibration``: what is declared about the scale of quality. See ``care_ops.config.Calibration``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scale: str = Field(default="own", pattern=r"^(own|uniform|anchors|judge:.+)$")
    prevalence: float | None = Field(default=None, gt=0, lt=1)


class TestsetSpec(BaseModel):
    """One test set.

    Attributes
    ----------
    name : str
        Also a partition key.
    source : FilesSource, DemoSource or HuggingFaceSource
    scale : (low, high), optional
        The score scale; recorded scores outside it are missing.
    cut : float, optional
        Scores above it are votes for Q = 1; for binary gold.
    calibration : CalibrationSettings
    systems : tuple of one or two str
        Columns of the item file that name the system (model, version) an item belongs to; of a pair, the two that are
        compared, the one of ``response`` first.
    prompt : str, optional
        Prompt template for judges that are language models and name none of their own.
    """

    __test__ = False  # not a test class, whatever pytest thinks of its name

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str = ""
    source: Source
    scale: tuple[float, float] | None = None
    cut: float | None = None
    calibration: CalibrationSettings = CalibrationSettings()
    systems: tuple[str, ...] = Field(default=(), max_length=2)
    prompt: str | None = None

    @field_validator("name")
    @classmethod
    def _usable_name(cls, name: str) -> str:
        if not name.strip() or any(mark in name for mark in _FORBIDDEN_IN_NAMES):
            raise ValueError(f"test set name {name!r} is empty or holds one of | ... , / tab or newline")
        return name

    @model_validator(mode="after")
    def _ordered_scale(self) -> TestsetSpec:
        if self.scale is not None and not self.scale[0] < self.scale[1]:
            raise ValueError(f"scale must be [low, high] with low < high, got {list(self.scale)}")
        if self.scale is None and self.calibration.scale == "uniform":
            raise ValueError("calibration.scale is uniform, but no scale is declared; add scale: [low, high]")
        return self

    def unverified(self) -> str | None:
        """What nobody has checked about the source, if anything."""
        if isinstance(self.source, HuggingFaceSource) and not self.source.verified:
            how = self.source.checked or "not compared with the data"
            return f"column names of {self.source.dataset}: {how}; set source.verified: true once you have looked"
        return None

    def fingerprint(self, base: Path) -> str:
        """Hash of what the items are made of: the source and the bytes of its item file.

        Recorded scores count as judges, scale and cut as settings of the fit.

        Raises
        ------
        InputError
            The file is not there.
        """
        digest = hashlib.sha256(self.source.model_dump_json(exclude={"scores"}).encode())
        if isinstance(self.source, FilesSource):
            digest.update(_file_hash(resolve(self.source.items, base)).encode())
        if isinstance(self.source, HuggingFaceSource):  # a repository's revision is in the source already
            folder = resolve(self.source.dataset, base)
            for path in sorted(p for p in folder.rglob("*") if p.is_file()) if folder.is_dir() else []:
                digest.update(f"{path.relative_to(folder)} {_file_hash(path)}".encode())
        return digest.hexdigest()[:32]


def resolve(path: str, base: Path) -> Path:
    """A path in a test set's file: ``${NAME}`` from the environment, relative to the workspace.

    Raises
    ------
    InputError
        An environment variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match.group(1))
        if not found:
            raise InputError(f"{path}: the environment variable {match.group(1)} is not set; set it to a folder")
        return found

    return (base / _VARIABLE.sub(value, path)).absolute()


def _file_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; correct the path in the test set's YAML") from error
