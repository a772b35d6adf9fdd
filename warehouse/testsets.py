"""Specification of a test set, read from one YAML file."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from care_ops.errors import InputError
from warehouse.versions import ORIGINAL, PAIR, TRANSFORMATIONS, TRIGGERS, VERSION

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_FORBIDDEN_IN_NAMES = ("|", "...", ",", "/", *map(chr, range(32)), "\x7f")


def _ordered(scale: tuple[float, float]) -> tuple[float, float]:
    if not scale[0] < scale[1]:
        raise ValueError(f"a scale must be [low, high] with low < high, not {list(scale)}")
    return scale


def _with_range(scale: tuple[float, float]) -> tuple[float, float]:
    _ordered((min(scale), max(scale)))
    return scale


Scale = Annotated[tuple[float, float], AfterValidator(_ordered)]


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ItemColumns(_Declared):
    """Names of the columns from which the fields of an item are read; all other columns become metadata.

    In a file, a field without a setting is read from the column of the same name, unless the column is in ``drop``.
    """

    item_id: str = "item_id"
    prompt: str | None = None
    response: str | None = None
    response_2: str | None = None
    reference: str | None = None
    aspect: str | None = Field(default=None, description="column that names the aspect of quality to score")
    gold: str | None = None
    split_unit: str | None = None


class ReadingOptions(_Declared):
    """Settings (``reading``) for a file that can be read in several ways.

    Attributes
    ----------
    separator : str, optional
        Character that separates the values in a text file.
    encoding : str, optional
        Encoding of a text or JSON file.
    decimal : {".", ","}, optional
        Decimal separator of the numbers in a file.
    sheet : str, optional
        Name of a workbook's sheet.
    grades : tuple of str
        Words that are grades, in ascending order, such as poor,fair,good; CARE reads them as 1, 2, 3.
    """

    separator: str | None = Field(default=None, min_length=1, max_length=1)
    encoding: str | None = None
    decimal: Literal[".", ","] | None = None
    sheet: str | None = None
    grades: tuple[str, ...] = ()


AS_FOUND = ReadingOptions.model_construct()
"""Default options: the content of the file determines how it is read."""


class ScoreColumns(_Declared):
    """Names of the columns of the score file; by default, CARE looks for common names, such as ``rater``.

    ``judge`` and ``score`` are columns of a long table with one judge's score of one item in each row.
    ``judge_columns`` lists the judges of a wide table. By default every column of numbers is a judge, unless its name,
    its content or ``drop`` excludes it. ``response`` is the column of the scored text, which CARE compares with the
    item's response.
    """

    item_id: str = "item_id"
    judge: str = "judge"
    score: str = "score"
    response: str | None = Field(default=None, description="column with the text that the judge scored")
    judge_columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class RecordedJudges(_Declared):
    """Settings for judges with recorded scores: names, families and scales."""

    judges: str | None = Field(default=None, description="regular expression for the names of the judges to read")
    family_pattern: str | None = Field(
        default=None, description="regular expression for judge names; its first group is the judge's family"
    )
    families: dict[str, str] = {}
    scales: dict[str, Annotated[tuple[float, float], AfterValidator(_with_range)]] = Field(
        default={},
        description="lowest and highest score of each judge whose scale differs from the test set's scale",
    )

    def accepts(self, judge: str) -> bool:
        """Return whether these settings allow reading the recorded scores of a judge."""
        return self.judges is None or re.search(self.judges, judge) is not None

    def family(self, judge: str) -> str | None:
        """Return a judge's declared family, or None if the settings declare no family."""
        if judge in self.families:
            return self.families[judge]
        match = re.search(self.family_pattern, judge) if self.family_pattern else None
        return match.group(1) if match else None


class RecordedScores(RecordedJudges):
    """Settings (``scores``) of the file with recorded scores of judges."""

    path: str
    columns: ScoreColumns = ScoreColumns.model_construct()
    reading: ReadingOptions = AS_FOUND


class ImportSource(RecordedJudges):
    """Source that reads items and scores from a file or folder of another evaluation tool (see docs/data.md)."""

    kind: Literal["import"] = "import"
    tool: Literal[
        "inspect_ai", "lm_eval", "alpaca_eval", "promptfoo", "deepeval", "phoenix", "langfuse", "care_release"
    ]
    path: str


class FilesSource(_Declared):
    """Source that reads items, and optionally recorded scores, from files (``sources.tables``)."""

    kind: Literal["files"] = "files"
    items: str
    columns: ItemColumns = ItemColumns.model_construct()
    where: dict[str, str | int | float] = {}
    drop: tuple[str, ...] = Field(default=(), description="columns not to read, such as columns that reveal gold")
    reading: ReadingOptions = AS_FOUND
    scores: RecordedScores | None = None

    @field_validator("items")
    @classmethod
    def _no_query(cls, items: str) -> str:
        if items.lower().endswith(".sql"):
            raise ValueError(
                f"{items}: CARE cannot detect changes in the result of a query; save the result as a Parquet file"
            )
        return items


class DemoSource(_Declared):
    """Source of the demo items, which CARE generates."""

    kind: Literal["demo"] = "demo"
    countries: int = Field(default=30, ge=1, le=30)
    seed: int = 20260
    complete: bool = Field(default=False, description="whether every answer states all requested facts")


class GoldRule(_Declared):
    """Rule that computes gold as the mean of the columns or paths in ``mean_of``; ``values`` maps words to numbers.

    If ``above`` is set, gold is 1 if the mean is greater than ``above``, and 0 otherwise. If ``at_least`` is set, gold
    is 1 if the mean is ``at_least`` or more, and 0 otherwise.
    """

    mean_of: tuple[str, ...] = Field(min_length=1)
    values: dict[str, float] = {}
    above: float | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def _one_threshold(self) -> GoldRule:
        if self.above is not None and self.at_least is not None:
            raise ValueError("`gold` has both `above` and `at_least`; remove one of them")
        return self

    def of(self, mean: float) -> float:
        """Convert the mean of an item's raw gold values, such as several raters' grades, to its gold label."""
        if self.above is not None:
            return float(mean > self.above)
        return mean if self.at_least is None else float(mean >= self.at_least)


class PreferredPair(_Declared):
    """Columns of the better and the worse response; a hash of the texts determines which response is shown first."""

    better: str
    worse: str


class HuggingFaceSource(_Declared):
    """Source that reads a data set from the Hugging Face hub or from a local folder.

    Attributes
    ----------
    revision : str, optional
        Commit, as 40 hexadecimal digits; required for a data set on the hub.
    files : str, optional
        Path pattern of the JSON, CSV or Parquet files in a repository whose loading script is no longer supported.
    columns : ItemColumns
        Columns, or paths such as ``info.post`` and ``conversation_a[1].content``; ``b`` in ``a | b`` replaces an empty
        ``a``. If a value is a conversation, the prompt is the complete conversation, and a response is its last answer.
    where : dict
        Required value, or list of allowed values, for each column; other rows are left out.
    pair : PreferredPair, optional
        Source of gold and of the two responses: gold is 1 if the better response is shown second.
    sample : int, optional
        Number of items in a random sample without replacement, with the random seed ``seed``.
    verified : bool
        Whether the column names were compared with the data at this revision; ``checked`` is a note on the comparison.
    """

    kind: Literal["huggingface"] = "huggingface"
    dataset: str
    config: str | None = None
    split: str
    revision: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    files: str | None = Field(default=None, pattern=r"\.(jsonl?|csv|parquet)$")
    columns: ItemColumns = ItemColumns.model_construct()
    where: dict[str, str | int | float | list[str | int | float]] = {}
    gold: GoldRule | None = None
    pair: PreferredPair | None = None
    sample: int | None = Field(default=None, ge=1)
    seed: int = 0
    verified: bool = False
    checked: str = ""
    license: str = ""


class VersionsSource(_Declared):
    """Source that reads the items of another test set (``of``) and adds changed versions of these items.

    ``changes`` names transformations, which preserve gold, or triggers, which replace the response by a phrase without
    an answer (``warehouse.versions``).
    """

    kind: Literal["versions"] = "versions"
    of: str
    changes: tuple[str, ...] = Field(default=tuple(TRANSFORMATIONS), min_length=1)

    @field_validator("changes")
    @classmethod
    def _known(cls, changes: tuple[str, ...]) -> tuple[str, ...]:
        available = (*TRANSFORMATIONS, *TRIGGERS)
        for change in changes:
            if change not in available:
                raise ValueError(f"unknown change {change!r}; choose from {', '.join(available)}")
            if changes.count(change) > 1:
                raise ValueError(f"changes: {change!r} is listed more than once; list it once")
        return changes


Source = Annotated[
    FilesSource | ImportSource | DemoSource | HuggingFaceSource | VersionsSource, Field(discriminator="kind")
]


class VersionColumns(_Declared):
    """Settings (``versions``) of the item file's columns that identify the versions of an answer.

    Versions of an answer have equal values in the column ``pair``. The column ``version`` contains the name of the
    change, or the value ``original``. If another column names the change, set ``change`` to that column, and set
    ``changed`` to the value of ``version`` for changed answers; items with neither ``changed`` nor ``original`` as the
    value of ``version`` are left out.
    """

    pair: str = PAIR
    version: str = VERSION
    original: str = ORIGINAL
    changed: str | None = None
    change: str | None = None

    @model_validator(mode="after")
    def _both(self) -> VersionColumns:
        if (self.changed is None) != (self.change is None):
            raise ValueError("only one of `changed` and `change` is set; set both, or remove both")
        return self

    def version_of(self, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return an item's ``pair`` value and its change (or ``original``); None if the item is not a version."""
        pair, version = metadata.get(self.pair), metadata.get(self.version)
        if pair is None or version is None:
            return None
        if str(version) == self.original:
            return str(pair), ORIGINAL
        if self.change is None:
            return str(pair), str(version)
        change = metadata.get(self.change)
        return (str(pair), str(change)) if str(version) == self.changed and change is not None else None


class CalibrationSettings(_Declared):
    """Settings (``calibration``) for the scale and prevalence of quality; see ``care_ops.config.Calibration``."""

    scale: str = Field(default="own", pattern=r"^(own|anchors)$")
    prevalence: float | None = Field(default=None, gt=0, lt=1)


class TestsetSpec(_Declared):
    """Specification of a test set.

    Attributes
    ----------
    name : str
        Name of the test set; it is also its Dagster partition key.
    scale : (low, high), optional
        Scale of the scores; a recorded score outside the scale counts as missing.
    cut : float, optional
        Threshold, only for binary gold: a score above this number rates the item as good (Q = 1).
    systems : tuple of one or two str
        Column of the item file that names the system (model, version) of an item. Pairs need two columns: first the
        column of the system that wrote ``response``.
    prompt : str, optional
        Default prompt template of language-model judges; a template in the judge's own file has precedence.
    versions : VersionColumns, optional
        Columns of an item file that identify versions of answers; a source of kind ``versions`` does not need them.
    raters : tuple of str
        Columns of the item file with the ratings of individual people; only experiments read these columns.
    features : tuple of str
        Columns of the item file with numbers that describe the response, in addition to features computed from texts.
    not_quality : tuple of str
        Features that are not part of quality: ``words``, ``sentences``, ``list_items``, ``numbers``, or a column.
    shuffled : bool
        Whether the items are in random order. If so, a trend of the scores along the rows is judge drift.
    """

    __test__ = False  # not a test class, although its name begins with Test

    name: str
    description: str = ""
    source: Source
    scale: Scale | None = None
    cut: float | None = None
    calibration: CalibrationSettings = CalibrationSettings.model_construct()
    systems: tuple[str, ...] = Field(default=(), max_length=2)
    prompt: str | None = None
    versions: VersionColumns | None = None
    raters: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    not_quality: tuple[str, ...] = ()
    shuffled: bool = False

    @property
    def further_columns(self) -> tuple[str, ...]:
        """Names of the columns that the item file must have in addition to texts and gold."""
        versions = self.versions
        of_versions = () if versions is None else (versions.pair, versions.version, versions.change)
        return tuple(name for name in (*self.raters, *self.features, *of_versions) if name is not None)

    @property
    def recorded(self) -> RecordedScores | ImportSource | None:
        """Settings of the file with recorded scores, or None if the test set has no such file."""
        if isinstance(self.source, ImportSource):
            return self.source
        return self.source.scores if isinstance(self.source, FilesSource) else None

    @property
    def version_columns(self) -> VersionColumns | None:
        """Columns that identify versions of one answer, or None if the test set has no versions."""
        return VersionColumns() if isinstance(self.source, VersionsSource) else self.versions

    @field_validator("name")
    @classmethod
    def _usable_name(cls, name: str) -> str:
        if not name.strip() or any(mark in name for mark in _FORBIDDEN_IN_NAMES):
            raise ValueError(
                f"test set name {name!r} is empty or has |, /, a comma, three dots or a control character; rename it"
            )
        return name

    def unverified(self) -> str | None:
        """Return a warning if the source's column names still need verification; otherwise return None."""
        if isinstance(self.source, HuggingFaceSource) and not self.source.verified:
            remedy = f"compare them with the data set {self.source.dataset}, then set source.verified: true"
            return f"the column names are not verified ({self.source.checked or 'no check is recorded'}); {remedy}"
        return None

    def fingerprint(self, base: Path, hash_file: Callable[[Path], str] | None = None) -> str:
        """Return a hash of everything that determines the items: the source settings and the bytes of the item file.

        Recorded scores are excluded, because they belong to judges. Scale and cut are excluded, because they are
        settings of the fit. Paths in the source are relative to ``base``. ``hash_file`` hashes a file (default:
        ``hash_of_file``). Raises ``InputError`` if the item file does not exist or is a folder.
        """
        hash_file = hash_file or hash_of_file
        digest = hashlib.sha256(self.source.model_dump_json(exclude=_without_effect(self.source)).encode())
        if self.further_columns:
            digest.update(repr(self.further_columns).encode())
        if isinstance(self.source, FilesSource):
            digest.update(hash_file(resolve(self.source.items, base)).encode())
        if isinstance(self.source, ImportSource):
            path = resolve(self.source.path, base)
            digest.update((_folder_hash(path, hash_file) if path.is_dir() else hash_file(path)).encode())
        if isinstance(self.source, HuggingFaceSource):  # for a repository, the source's settings hold its revision
            digest.update(_folder_hash(resolve(self.source.dataset, base), hash_file).encode())
        return digest.hexdigest()[:32]


def _without_effect(source: Source) -> dict[str, Any]:
    """Return the fields of a source that do not affect the items: recorded scores, and settings without a value."""
    if isinstance(source, ImportSource):
        return dict.fromkeys(RecordedJudges.model_fields, True)
    unused: dict[str, Any] = {"scores": True}
    if isinstance(source, FilesSource) and source.reading == AS_FOUND:
        unused["reading"] = True
    if isinstance(source, HuggingFaceSource):
        if source.files is None:
            unused["files"] = True
        if source.gold is not None and source.gold.at_least is None:
            unused["gold"] = {"at_least"}
    return unused


def resolve(path: str, base: Path) -> Path:
    """Make a path absolute: replace each ``${NAME}`` by an environment variable; a relative path starts at ``base``.

    Raises ``InputError`` if a variable is not set, or the path is a URL such as ``s3://bucket/items.csv``.
    """

    def value(match: re.Match[str]) -> str:
        variable = os.environ.get(match.group(1))
        if not variable:
            raise InputError(f"{path}: the environment variable {match.group(1)} is not set; set it to a folder")
        return variable

    complete = _VARIABLE.sub(value, path)
    if names_an_address(complete):
        raise InputError(f"{complete} is a URL; give a local path, or the path of a mounted folder")
    found = (base / complete).absolute()
    return found.parent.resolve() / found.name if ".." in found.parent.parts else found  # a link keeps its name


def _folder_hash(folder: Path, hash_file: Callable[[Path], str]) -> str:
    """Join the names and hashes of all files below a folder; return an empty string if the folder does not exist."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    return "".join(f"{path.relative_to(folder)} {hash_file(path)}" for path in files)


def names_an_address(path: str) -> bool:
    """Return whether a path is a URL with a scheme."""
    return "://" in path


def hash_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes; raise ``InputError`` if the file does not exist or is a folder."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; correct the path in the test set's YAML") from error
    except IsADirectoryError as error:
        raise InputError(
            f"{path}: the path is a folder, not a file; restore the file, or correct the path in the test set's YAML"
        ) from error
