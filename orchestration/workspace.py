"""Settings of care.yaml, and functions that read a workspace's files into a ``Workspace``."""

import os
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from assets.report.names import refuse_alike
from assets.workers import DaskConfig
from assets.workspace import CanaryConfig, ReviewConfig, Workspace
from care_ops.config import AdmissionRule, FitConfig, StructureConfig, with_profile
from care_ops.errors import InputError
from judges.pool import PoolConfig
from judges.ray_cluster import RayConfig
from judges.settings_files import explain, guards_settings, load_yaml, read_model
from judges.spec import JudgeSpec, LocalModel
from warehouse.remote.address import usable_address
from warehouse.testsets import ImportSource, RecordedScores, TestsetSpec, VersionsSource, names_an_address, resolve

S = TypeVar("S", TestsetSpec, JudgeSpec)

CARE_YAML = "care.yaml"
FULL_SIZE = "CARE_FULL_SIZE"
"""Environment variable that makes experiments run at the paper's size."""

DECLARED_BY_TEST_SETS = ("cut", "scale", "calibration", "not_quality", "placement")
"""Fields of ``FitConfig`` that care.yaml cannot set: the profile sets ``placement``, a test set sets the others."""


def _grouped(fit: Any) -> Any:
    """Move the settings of ``FitConfig.structure``, which are direct children of ``fit`` in care.yaml, into a group."""
    if not isinstance(fit, dict):
        return fit
    for name in fit.keys() & {"structure", *DECLARED_BY_TEST_SETS}:
        advice = "declare it in a test set" if name in DECLARED_BY_TEST_SETS else "write its settings into `fit` itself"
        advice = "write `profile: paper`" if name == "placement" else advice
        raise ValueError(f"{name} does not belong here; {advice}")
    settings = with_profile(fit)
    settings["structure"] = {f.name: settings.pop(f.name) for f in fields(StructureConfig) if f.name in settings}
    return settings


def _on_this_machine(path: str) -> str:
    if names_an_address(path):
        raise ValueError(f"{path} is a URL; give a local path, or the path of a mounted folder")
    return path


LocalPath = Annotated[str, AfterValidator(_on_this_machine)]
"""Path of a file or folder on this machine."""

COPY = "data"
"""Name of the folder next to care.yaml that holds the local copy of a store."""


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class NightlySettings(_Declared):
    """Settings of ``nightly``: the time at which the daemon begins its nightly run, and the deadline for this start."""

    at: str = Field(default="02:00", pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="hour and minute of the run")
    zone: str = Field(default="UTC", description="time zone, like Europe/Berlin")
    deadline_hours: float = Field(
        default=6, gt=0, le=23, description="hours after which a nightly run that has not begun is reported as late"
    )

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str) -> str:
        if zone not in available_timezones():
            raise ValueError(f"there is no time zone {zone!r}; give a name such as Europe/Berlin")
        return zone

    def cron(self) -> str:
        begins = time.fromisoformat(self.at)
        return f"{begins.minute} {begins.hour} * * *"

    def deadline_after(self, last: float) -> float:
        """Return the start deadline of the first nightly run scheduled after ``last``, both in seconds since 1970."""
        day = datetime.fromtimestamp(last, ZoneInfo(self.zone)).date()
        while True:
            start = datetime.combine(day, time.fromisoformat(self.at), ZoneInfo(self.zone)).timestamp()
            if start > last:
                return start + 3600 * self.deadline_hours
            day += timedelta(days=1)


_ADDRESS = r"(slack\+)?https?://\S+"


class AlertSettings(_Declared):
    """Settings of ``alerts``: the recipients of alerts and of the heartbeat."""

    webhook: str | None = Field(
        default=None,
        description="https URL to which CARE posts each alert as JSON, or ${NAME} of an environment variable; "
        "slack+https://... posts in Slack's format",
    )
    file: LocalPath | None = Field(default=None, description="file to which CARE appends a line of JSON for each alert")
    heartbeat: str | None = Field(
        default=None, description="URL, or ${NAME}, to which CARE sends a POST after each successful nightly run"
    )

    @field_validator("webhook", "heartbeat")
    @classmethod
    def _usable(cls, address: str | None, info: ValidationInfo) -> str | None:
        if address is not None and not re.match(rf"^({_ADDRESS}|\$\{{\w+\}})$", address):
            raise ValueError(f"{info.field_name} must be an https URL, or ${{NAME}} for a URL in the environment")
        return address

    def address(self, setting: Literal["webhook", "heartbeat"]) -> str:
        """Return a setting's URL (empty if not set); raise ``InputError`` if its environment variable holds no URL."""
        given: str = getattr(self, setting) or ""
        if not given.startswith("${"):
            return given
        name = given[2:-1]
        address = os.environ.get(name, "").strip()
        if not address:
            raise InputError(
                f"alerts.{setting}: the environment variable {name} is not set; set it, or leave `{setting}` out"
            )
        if not re.fullmatch(_ADDRESS, address):
            raise InputError(
                f"alerts.{setting}: the environment variable {name} does not hold an https URL; correct it"
            )
        return address


class Settings(_Declared):
    """Settings of care.yaml with their defaults."""

    data: Annotated[str, AfterValidator(lambda path: usable_address(path) if names_an_address(path) else path)] = Field(
        default="data",
        description="folder of scores, database, fits and reports; or the URL of a store that holds them, like "
        "s3://bucket/path; the folder `data` is then a copy of the store (docs/deployment.md)",
    )
    panel: AdmissionRule = AdmissionRule()
    fit: Annotated[FitConfig, BeforeValidator(_grouped)] = FitConfig()
    judging: PoolConfig = PoolConfig()
    ray: RayConfig = RayConfig()
    dask: DaskConfig = DaskConfig()
    review: ReviewConfig = ReviewConfig()
    canary: CanaryConfig = CanaryConfig()
    nightly: NightlySettings | None = None
    on_change: bool = Field(
        default=False,
        description="whether a daemon materialises stale assets as soon as files change, and runs judges at any hour; "
        "if false and `nightly` is set, the daemon does this only in nightly runs",
    )
    owners: tuple[Annotated[str, Field(pattern=r"^(team:\w+|[^@\s]+@[^@\s]+)$")], ...] = Field(
        default=(), description="owners of every asset: team:NAME, or an e-mail address"
    )
    alerts: AlertSettings = AlertSettings.model_construct()
    labels: dict[str, LocalPath] = Field(
        default={},
        description="labels that fits may use: a file with item_id and label for each test set; if the file also has "
        "drawn and probability, estimates of rates use these labels (docs/labels.md)",
    )


def load_workspace(root: Path) -> Workspace:
    """Read the workspace in a folder: care.yaml, the test sets and the judges.

    Raises ``InputError`` if a file is missing or invalid; the message names file and field.
    """
    root = root.absolute()
    settings = read_settings(root)
    testsets = _load_testsets(root / "testsets")
    judges = _load_judges(root, settings, testsets)
    workspace = Workspace(
        root=root,
        data=data_folder(root, settings),
        store=settings.data if names_an_address(settings.data) else None,
        testsets=testsets,
        judges=judges,
        admission=settings.panel,
        fit=settings.fit,
        pool=settings.judging,
        ray=settings.ray,
        dask=settings.dask,
        review=settings.review,
        canary=settings.canary,
        experiments="full" if os.environ.get(FULL_SIZE) else "small",
        labels=settings.labels,
    )
    if workspace.store is not None:
        from warehouse.remote.copy import copy_of

        copy_of(workspace.data, workspace.store)  # from now on, every write goes to the store first
    return workspace


def data_folder(root: Path, settings: Settings) -> Path:
    """Return the data folder on this machine, which is a local copy if the data are in a remote store."""
    return (root / (COPY if names_an_address(settings.data) else settings.data)).absolute()


@guards_settings
def read_settings(root: Path) -> Settings:
    """Read the settings in care.yaml, without the judges and test sets.

    Raises ``InputError`` if care.yaml is missing or invalid, or names an environment variable that is not set.
    """
    path = root / CARE_YAML
    if not path.exists():
        raise InputError(f"{path}: no such file; `care init {root}` creates a workspace")
    content = load_yaml(path)
    try:
        settings = Settings.model_validate(content)
        settings.alerts.address("webhook")  # a missing variable is an error now, not after the run
        settings.alerts.address("heartbeat")
        return settings
    except ValidationError as error:
        problems = explain(error, Settings, content).replace("fit.structure", "fit")
        raise InputError(f"{path}: {problems}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def folder_of(root: Path, what: Literal["judges", "testsets"]) -> Path:
    """Return the folder of judges or test sets; raise ``InputError`` if there is no workspace."""
    read_settings(root.absolute())
    return root.absolute() / what


def _read_all(folder: Path, what: str, read: Callable[[Path], S]) -> dict[str, S]:
    found: dict[str, S] = {}
    for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"))):
        try:
            spec = read(path)
        except InputError:
            if not os.path.lexists(path):  # deleted meanwhile; a broken link exists and is an error
                continue
            raise
        if spec.name in found:
            raise InputError(f"{path}: another file also defines {what} {spec.name!r}; rename one of them")
        found[spec.name] = spec
    return found


def _load_testsets(folder: Path) -> dict[str, TestsetSpec]:
    testsets = _read_all(folder, "test set", lambda path: read_model(path, TestsetSpec))
    refuse_alike("test set", testsets, folder)
    for spec in testsets.values():
        if isinstance(spec.source, VersionsSource):
            original = testsets.get(spec.source.of)
            if original is None or isinstance(original.source, VersionsSource):
                names = ", ".join(name for name, t in testsets.items() if not isinstance(t.source, VersionsSource))
                raise InputError(
                    f"{folder}: test set {spec.name!r} cannot contain versions of the items of {spec.source.of!r}, "
                    f"because {spec.source.of!r} is not a test set with its own items; set `of` to one of {names}"
                )
    return testsets


def _load_judges(root: Path, settings: Settings, testsets: dict[str, TestsetSpec]) -> dict[str, JudgeSpec]:
    judges = _read_all(root / "judges", "judge", lambda path: _with_absolute_model(read_model(path, JudgeSpec), root))
    for testset in testsets.values():
        declared = testset.recorded
        if declared is None:
            continue
        path = Path(declared.path)
        try:
            path = resolve(declared.path, root)
            recorded = [judge for judge in _recorded(declared, path) if declared.accepts(judge)]
        except InputError:
            asked = {judge for judge, spec in judges.items() if not spec.engine.needs.recordings}
            if not (
                recorded := [judge for judge in _judges_of_last_panel(root, settings, testset) if judge not in asked]
            ):
                raise
        for judge in recorded:
            _merge_recorded(judges, judge, declared.family(judge), testset.name, path)
    refuse_alike("judge", judges, root / "judges")
    return judges


def _judges_of_last_panel(root: Path, settings: Settings, testset: TestsetSpec) -> list[str]:
    """Return the judges of a test set's last panel, to show them while the file of scores is unreadable."""
    from assets.fit.documents import PanelDocument
    from warehouse.artifacts import FitFolder

    panel = FitFolder(data_folder(root, settings) / "fits", testset.name).find(PanelDocument)
    declared = {} if testset.recorded is None else testset.recorded.families
    columns = {JudgeSpec.recorded(column, None, testset.name).name: column for column in declared}
    return [] if panel is None else [columns.get(judge, judge) for judge in panel.slices]


def _with_absolute_model(spec: JudgeSpec, root: Path) -> JudgeSpec:
    if isinstance(spec.engine, LocalModel) and (root / spec.engine.model).is_dir():
        engine = spec.engine.model_copy(update={"model": str(root / spec.engine.model)})
        return spec.model_copy(update={"engine": engine})
    return spec


def _recorded(declared: RecordedScores | ImportSource, path: Path) -> list[str]:
    if isinstance(declared, ImportSource):
        from warehouse.importers.registry import read_unchanged

        return read_unchanged(declared.tool, path).judges
    from warehouse.sources.files import recorded_judges

    return recorded_judges(path, declared.columns, declared.reading)


def _merge_recorded(judges: dict[str, JudgeSpec], judge: str, family: str | None, testset: str, path: Path) -> None:
    """Add a judge with recorded scores to ``judges``; the same name in several test sets denotes one judge."""
    spec, column = JudgeSpec.recorded(judge, family, testset), judge
    known = judges.setdefault(judge := spec.name, spec)
    if known is spec:
        return
    if known.engine.recorded_as not in (None, column):
        raise InputError(
            f"{path}: the judges {known.engine.recorded_as!r} and {column!r} would both get the name {judge!r}; rename "
            "one of them"
        )
    if not known.engine.needs.recordings:
        raise InputError(f"{path}: judge {judge!r} has recorded scores here and also a YAML file; rename one of them")
    if family is not None and known.family is not None and family != known.family:
        raise InputError(
            f"{path}: judge {judge!r} declares family {family!r} here and {known.family!r} elsewhere; declare one "
            "family"
        )
    judges[judge] = known.model_copy(
        update={"testsets": (*(known.testsets or ()), testset), "family": known.family or family}
    )
