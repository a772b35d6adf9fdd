"""care.yaml and the folders beside it, read into a ``Workspace``.

Belongs here: the file's form, its validation, templates of a new workspace. Does not: what the settings
do (``assets``, ``care_ops``).
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import available_timezones

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, ValidationError, field_validator

from assets.workspace import CanaryConfig, MomentsConfig, ReviewConfig, Workspace
from care_ops.anchors import Anchors
from care_ops.config import DEFAULT_AGGREGATORS, AdmissionRule, FitConfig, Judges, StructureConfig, TensorConfig
from care_ops.errors import InputError
from judges.pool import PoolConfig
from judges.spec import JudgeSpec, RecordedEngine, explain, load_spec, load_yaml
from warehouse.testsets import FilesSource, TestsetSpec, VersionsSource, resolve

CARE_YAML = "care.yaml"
FULL_SIZE = "CARE_FULL_SIZE"
"""Environment variable that asks for experiments at full size, whatever care.yaml says."""


class PanelSettings(BaseModel):
    """``panel``: who is admitted. See ``care_ops.config.AdmissionRule``."""

    model_config = ConfigDict(extra="forbid")

    admit: Literal["rule", "all"] = "rule"
    max_missing: float = Field(default=0.10, ge=0, le=1)
    max_mode_share: float = Field(default=0.95, gt=0, le=1)
    min_entropy: float = Field(default=0.20, ge=0)
    min_return: float = Field(default=0.30, ge=0, le=1)
    min_gain: float = Field(default=0.25, ge=0, le=2)
    report_agreement: float = Field(default=0.1, ge=-1, le=1)


class FitSettings(BaseModel):
    """``fit``: aggregators and penalties."""

    model_config = ConfigDict(extra="forbid")

    aggregators: tuple[str, ...] = DEFAULT_AGGREGATORS
    program: Literal["frobenius", "dtrace"] = "frobenius"
    gamma: float = Field(default=1.0, gt=0)
    tau: float = Field(default=0.5, gt=0)
    states: int = Field(default=4, ge=0, le=32)
    views: Literal["structure", "within"] = "structure"
    judges: Judges = "gaussian"
    quality: Literal["leading", "balance"] = "leading"
    subtract_confounders: bool = False
    missing: Literal["pairwise", "em"] = "pairwise"
    resamples: int = Field(default=60, ge=0)
    seed: int = 0

    @field_validator("states")
    @classmethod
    def _more_than_one(cls, states: int) -> int:
        if states == 1:
            raise ValueError("one state tells no items apart; give two or more, or 0 to choose by BIC")
        return states

    @field_validator("resamples")
    @classmethod
    def _enough(cls, resamples: int) -> int:
        if 0 < resamples < 20:
            raise ValueError("fewer than 20 resamples bound nothing; give 0 for no intervals")
        return resamples

    def config(self) -> FitConfig:
        """The same for ``care_ops``."""
        structure = StructureConfig(self.program, self.gamma, self.tau)
        rest = self.model_dump(exclude={"program", "gamma", "tau", "states", "views", "judges"})
        return FitConfig(structure=structure, tensor=TensorConfig(self.states, self.views, self.judges), **rest)


class JudgingSettings(BaseModel):
    """``judging``: where judges run."""

    model_config = ConfigDict(extra="forbid")

    mode: Literal["auto", "inline", "ray"] = "auto"
    actors: int = Field(default=1, ge=1)
    in_flight: int = Field(default=2, ge=1)
    side_by_side: int = Field(default=1, ge=1)


class ReviewSettings(BaseModel):
    """``review``: when a night is held back from publication. See ``assets.workspace.ReviewConfig``."""

    model_config = ConfigDict(extra="forbid")

    hold: bool = True
    max_missing: float = Field(default=0.20, ge=0, le=1)
    max_missing_rise: float = Field(default=0.05, ge=0, le=1)
    max_psi: float = Field(default=0.25, ge=0)
    max_mean_shift: float = Field(default=0.5, ge=0)
    min_rank_correlation: float = Field(default=0.7, ge=-1, le=1)
    min_quality: float = Field(default=0.7, ge=-1, le=1)
    max_duplicates_rise: float = Field(default=0.01, ge=0, le=1)
    declared: tuple[str, ...] = ()


class CanarySettings(BaseModel):
    """``canary``: judges behind an API are asked again. See ``assets.workspace.CanaryConfig``."""

    model_config = ConfigDict(extra="forbid")

    items: int = Field(default=12, ge=0)
    tolerance: float = Field(default=0.1, gt=0, le=1)


class MomentsSettings(BaseModel):
    """``moments``: in this process or on Dask."""

    model_config = ConfigDict(extra="forbid")

    dask_workers: int = Field(default=0, ge=0)
    dask_address: str | None = None
    threshold_rows: int = Field(default=5_000_000, ge=0)
    rows_per_shard: int = Field(default=524_288, ge=1)


class NightlySettings(BaseModel):
    """``nightly``: when the night is checked, and by when it must have been."""

    model_config = ConfigDict(extra="forbid")

    at: str = Field(default="02:00", pattern=r"^([01]\d|2[0-3]):[0-5]\d$")
    zone: str = "UTC"
    days: str = Field(
        default="*", pattern=r"^[\d*,-]+$", description="of the week, as in cron: 1-5 is Monday to Friday"
    )
    deadline_hours: float = Field(default=6, gt=0, le=23)

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str) -> str:
        if zone not in available_timezones():
            raise ValueError(f"no time zone {zone!r}; give one like Europe/Berlin")
        return zone

    def cron(self) -> str:
        """The same as a cron string."""
        hour, minute = self.at.split(":")
        return f"{int(minute)} {int(hour)} * * {self.days}"


class AlertSettings(BaseModel):
    """``alerts``: who is told of a night that failed or did not come."""

    model_config = ConfigDict(extra="forbid")

    webhook: str | None = Field(default=None, description="https address, or ${NAME} from the environment")
    file: str | None = None

    @field_validator("webhook")
    @classmethod
    def _usable(cls, webhook: str | None) -> str | None:
        if webhook is not None and not re.match(r"^(https?://\S+|\$\{\w+\})$", webhook):
            raise ValueError("webhook must be an https address, or ${NAME} for one in the environment")
        return webhook

    def address(self) -> str:
        """The webhook's address.

        Raises
        ------
        InputError
            Its environment variable is not set.
        """
        webhook = self.webhook or ""
        if not webhook.startswith("${"):
            return webhook
        found = os.environ.get(webhook[2:-1])
        if not found:
            raise InputError(f"alerts.webhook: the environment variable {webhook[2:-1]} is not set")
        return found


class Settings(BaseModel):
    """care.yaml."""

    model_config = ConfigDict(extra="forbid")

    data: str = "data"
    judges: str = "judges"
    testsets: str = "testsets"
    panel: PanelSettings = PanelSettings()
    fit: FitSettings = FitSettings()
    judging: JudgingSettings = JudgingSettings()
    moments: MomentsSettings = MomentsSettings()
    review: ReviewSettings = ReviewSettings()
    canary: CanarySettings = CanarySettings()
    experiments: Literal["small", "full"] = Field(default="small", description="size of the paper's experiments")
    experiment_sizes: dict[str, dict[str, StrictInt | list[StrictInt | StrictFloat]]] = Field(
        default={}, description="experiment -> its parameters, instead of the size's"
    )
    nightly: NightlySettings | None = None
    owners: tuple[Annotated[str, Field(pattern=r"^(team:\w+|[^@\s]+@[^@\s]+)$")], ...] = Field(
        default=(), description="of every asset: team:NAME, or an e-mail address"
    )
    watch_seconds: int = Field(default=30, ge=1, description="how often the daemon looks at the workspace")
    alerts: AlertSettings = AlertSettings()
    anchors: dict[str, str] = Field(default={}, description="test set -> file of item_id, label")

    @field_validator("experiment_sizes")
    @classmethod
    def _known(cls, sizes: dict[str, Any]) -> dict[str, Any]:
        from assets.experiments.registry import KEYS

        unknown = sorted(set(sizes) - set(KEYS))
        if unknown:
            raise ValueError(f"no experiment is called {', '.join(unknown)}; there are {', '.join(KEYS)}")
        return sizes


def load_workspace(root: Path) -> Workspace:
    """Read care.yaml, the test sets, the judges and the anchors.

    Raises
    ------
    InputError
        A file is missing or invalid; the message names file and field.
    """
    from warehouse.sources.files import read_labels

    root = root.absolute()
    settings = read_settings(root)
    testsets = _load_testsets(root / settings.testsets)
    judges = _load_judges(root, settings, testsets)
    workspace = Workspace(
        root=root,
        data=(root / settings.data).absolute(),
        testsets=testsets,
        judges=judges,
        admission=AdmissionRule(**settings.panel.model_dump()),
        fit=settings.fit.config(),
        pool=PoolConfig(**settings.judging.model_dump()),
        moments=MomentsConfig(**settings.moments.model_dump()),
        review=ReviewConfig(**settings.review.model_dump()),
        canary=CanaryConfig(**settings.canary.model_dump()),
        experiments="full" if os.environ.get(FULL_SIZE) else settings.experiments,
        experiment_sizes=settings.experiment_sizes,
    )
    anchors = {
        workspace.testset(name).name: Anchors(read_labels(resolve(file, root)))
        for name, file in settings.anchors.items()
    }
    return replace(workspace, anchors=anchors)


def read_settings(root: Path) -> Settings:
    """care.yaml itself.

    Raises
    ------
    InputError
        It is missing or invalid, or names an environment variable that is not set.
    """
    path = root / CARE_YAML
    if not path.exists():
        raise InputError(f"{path}: no such file; `care init {root}` makes a workspace")
    try:
        settings = Settings.model_validate(load_yaml(path) if path.stat().st_size else {})
        if settings.alerts.webhook is not None:
            settings.alerts.address()  # before a night is spent, not after
        return settings
    except ValidationError as error:
        raise InputError(f"{path}: {explain(error)}") from error


def judges_folder(root: Path) -> Path:
    """Where judge files lie; ``InputError`` where there is no workspace."""
    return root.absolute() / read_settings(root.absolute()).judges


def testsets_folder(root: Path) -> Path:
    """Where test-set files lie; ``InputError`` where there is no workspace."""
    return root.absolute() / read_settings(root.absolute()).testsets


def _load_testsets(folder: Path) -> dict[str, TestsetSpec]:
    testsets: dict[str, TestsetSpec] = {}
    for path in _yaml_files(folder):
        try:
            data: dict[str, Any] = {"name": path.stem, **load_yaml(path)}
        except InputError:
            if _deleted(path):
                continue
            raise
        try:
            spec = TestsetSpec.model_validate(data)
        except ValidationError as error:
            raise InputError(f"{path}: {explain(error)}") from error
        if spec.name in testsets:
            raise InputError(f"{path}: test set {spec.name!r} is defined twice; rename one")
        testsets[spec.name] = spec
    for spec in testsets.values():
        if isinstance(spec.source, VersionsSource):
            of = testsets.get(spec.source.of)
            if of is None or isinstance(of.source, VersionsSource):
                there = ", ".join(name for name, t in testsets.items() if not isinstance(t.source, VersionsSource))
                raise InputError(f"{folder}: {spec.name!r} is to be versions of {spec.source.of!r}; there are {there}")
    return testsets


def _load_judges(root: Path, settings: Settings, testsets: dict[str, TestsetSpec]) -> dict[str, JudgeSpec]:
    from warehouse.sources.files import recorded_judges

    judges: dict[str, JudgeSpec] = {}
    for path in _yaml_files(root / settings.judges):
        try:
            spec = load_spec(path)
        except InputError:
            if _deleted(path):
                continue
            raise
        if spec.name in judges:
            raise InputError(f"{path}: judge {spec.name!r} is defined twice; rename one")
        judges[spec.name] = spec
    for testset in testsets.values():
        source = testset.source
        if not isinstance(source, FilesSource) or source.scores is None:
            continue
        path = resolve(source.scores.path, root)
        for judge in recorded_judges(path, source.scores.columns, source.scores.layout):
            if source.scores.accepts(judge):
                _merge_recorded(judges, judge, source.scores.family(judge), testset.name, path)
    return judges


def _merge_recorded(judges: dict[str, JudgeSpec], judge: str, family: str | None, testset: str, path: Path) -> None:
    """A judge recorded for several test sets is one judge."""
    known = judges.get(judge)
    if known is None:
        judges[judge] = JudgeSpec(name=judge, family=family, testsets=(testset,), engine=RecordedEngine(column=judge))
        return
    if not known.engine.needs.recordings:
        raise InputError(f"{path}: judge {judge!r} is recorded here, but a judge of that name has a YAML file")
    if family is not None and known.family is not None and family != known.family:
        raise InputError(f"{path}: judge {judge!r} declares family {family!r} here and {known.family!r} elsewhere")
    judges[judge] = known.model_copy(
        update={"testsets": (*(known.testsets or ()), testset), "family": known.family or family}
    )


def _yaml_files(folder: Path) -> list[Path]:
    if not folder.exists():
        return []
    return sorted(p for p in folder.iterdir() if p.suffix in (".yaml", ".yml"))


def _deleted(path: Path) -> bool:
    """Whether a file that was listed has been deleted since; a link to nothing has not, and is an error."""
    return not os.path.lexists(path)
