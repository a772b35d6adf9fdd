"""What a test set is, as data: one YAML file.

Belongs here: the specification and its validation. Does not: reading the files it names (``sources``).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from care_ops.errors import InputError
from warehouse.versions import ORIGINAL, PAIR, TRANSFORMATIONS, TRIGGERS, VERSION

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


class ReadingOptions(BaseModel):
    """``reading``: what is not to be decided by looking at the file.

    Attributes
    ----------
    separator, encoding : str, optional
        Of text with separated values; of JSON the encoding.
    decimal : {".", ","}, optional
        What stands before decimals.
    sheet : str, optional
        Of a workbook.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    separator: str | None = Field(default=None, min_length=1, max_length=1)
    encoding: str | None = None
    decimal: Literal[".", ","] | None = None
    sheet: str | None = None


class ScoreColumns(BaseModel):
    """Which column of the score file is what. A name that is not given is looked for, also under its synonyms.

    Attributes
    ----------
    item_id, judge, score : str
        ``judge`` and ``score`` of a long table.
    response : str, optional
        The text that was scored, to be compared.
    judge_columns : tuple of str
        Of a wide table: the columns that are judges, and no others; by default those that hold numbers and are by name
        or content nothing else.
    drop : tuple of str
        Of a wide table: columns that are no judges.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    item_id: str = "item_id"
    judge: str = "judge"
    score: str = "score"
    response: str | None = Field(default=None, description="the text that was scored, to be compared")
    judge_columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class RecordedScores(BaseModel):
    """A file of scores that exist already."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    layout: Literal["auto", "long", "wide"] = "auto"
    columns: ScoreColumns = ScoreColumns()
    reading: ReadingOptions = ReadingOptions()
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
    """Items, and optionally scores, in files of any kind that ``sources.tables`` reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["files"] = "files"
    items: str
    columns: ItemColumns = ItemColumns()
    where: dict[str, str | int | float] = {}
    drop: tuple[str, ...] = Field(default=(), description="columns never read, such as ones that leak gold")
    reading: ReadingOptions = ReadingOptions()
    scores: RecordedScores | None = None

    @field_validator("items")
    @classmethod
    def _no_query(cls, items: str) -> str:
        if items.lower().endswith(".sql"):
            raise ValueError(
                f"{items}: the rows of a query can change without its file, and nobody would notice; write them to a "
                "Parquet file"
            )
        return items


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


class VersionsSource(BaseModel):
    """Another test set's items, and changed versions of them beside the originals.

    Attributes
    ----------
    of : str
        The other test set.
    changes : tuple of str
        Names in ``warehouse.versions``: dressings that leave gold as it is, triggers that answer nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["versions"] = "versions"
    of: str
    changes: tuple[str, ...] = Field(default=tuple(TRANSFORMATIONS), min_length=1)

    @field_validator("changes")
    @classmethod
    def _known(cls, changes: tuple[str, ...]) -> tuple[str, ...]:
        known = (*TRANSFORMATIONS, *TRIGGERS)
        for change in changes:
            if change not in known:
                raise ValueError(f"no change {change!r}; there are {', '.join(known)}")
        if len(set(changes)) < len(changes):
            raise ValueError("a change stands there twice")
        return changes


Source = Annotated[FilesSource | DemoSource | HuggingFaceSource | VersionsSource, Field(discriminator="kind")]


class VersionColumns(BaseModel):
    """``versions``: which columns of the item file say that items are versions of one another.

    Attributes
    ----------
    pair : str
        Items that share it are versions of one answer.
    version : str
        What was done to it, or ``original``.
    original : str
        Value of ``version`` where nothing was done.
    changed : str, optional
        Value of ``version`` where something was, and ``change`` says what; others are left out.
    change : str, optional
        Column that names what was done, where ``version`` does not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pair: str = PAIR
    version: str = VERSION
    original: str = ORIGINAL
    changed: str | None = None
    change: str | None = None

    @model_validator(mode="after")
    def _both(self) -> VersionColumns:
        if (self.changed is None) != (self.change is None):
            raise ValueError("versions.changed and versions.change belong together: give both, or neither")
        return self

    def told(self, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
        """(pair, what was done) of an item, ``original`` where nothing was; None where it is no version."""
        pair, version = metadata.get(self.pair), metadata.get(self.version)
        if pair is None or version is None:
            return None
        if str(version) == self.original:
            return str(pair), ORIGINAL
        if self.change is None:
            return str(pair), str(version)
        change = metadata.get(self.change)
        return (str(pair), str(change)) if str(version) == self.changed and change is not None else None


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
    source : FilesSource, DemoSource, HuggingFaceSource or VersionsSource
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
    versions : VersionColumns, optional
        Where items are versions of one another; a source of versions says so itself.
    raters : tuple of str
        Columns of the item file that are single people's ratings. Only experiments read them, as they do gold.
    features : tuple of str
        Columns of the item file with numbers that describe the response, beside those that its text gives.
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
    versions: VersionColumns | None = None
    raters: tuple[str, ...] = ()
    features: tuple[str, ...] = ()

    @property
    def further_columns(self) -> tuple[str, ...]:
        """Columns beside texts and gold that must be there."""
        versions = self.versions
        named = () if versions is None else (versions.pair, versions.version, versions.change)
        return tuple(name for name in (*self.raters, *self.features, *named) if name is not None)

    @property
    def version_columns(self) -> VersionColumns | None:
        """How its items say that they are versions of one another, if they do."""
        return VersionColumns() if isinstance(self.source, VersionsSource) else self.versions

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
        digest = hashlib.sha256(self.source.model_dump_json(exclude=_without_effect(self.source)).encode())
        if self.further_columns:
            digest.update(repr(self.further_columns).encode())
        if isinstance(self.source, FilesSource):
            digest.update(_file_hash(resolve(self.source.items, base)).encode())
        if isinstance(self.source, HuggingFaceSource):  # a repository's revision is in the source already
            folder = resolve(self.source.dataset, base)
            for path in sorted(p for p in folder.rglob("*") if p.is_file()) if folder.is_dir() else []:
                digest.update(f"{path.relative_to(folder)} {_file_hash(path)}".encode())
        return digest.hexdigest()[:32]


def _without_effect(source: Source) -> set[str]:
    """Fields of a source that its items do not depend on: recorded scores, and how to read where nothing is said."""
    if isinstance(source, FilesSource) and source.reading == ReadingOptions():
        return {"scores", "reading"}
    return {"scores"}


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
