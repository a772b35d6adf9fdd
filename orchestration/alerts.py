"""Alerts to people, sent as JSON documents when a person must act and when the cause is resolved.

An alert is sent once, and again if its reason changes. ``alerts.json`` in the data folder holds the open alerts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assets.report.names import page_name
from care_ops.errors import CareError
from orchestration.workspace import AlertSettings
from warehouse.documents import document_of, record_of
from warehouse.testsets import resolve

if TYPE_CHECKING:
    import dagster as dg

_TIMEOUT_S = 10.0
_ATTEMPTS = 3

_FILE = "alerts.json"

Severity = Literal["critical", "error", "warning"]

KINDS: dict[str, tuple[Severity, str]] = {
    "workspace unreadable": ("critical", "CARE builds nothing until you correct the file that the message names."),
    "night late": (
        "critical",
        "Check that the daemon and its machine are running; `care run` builds what is missing.",
    ),
    "run lost": ("error", "Check why the process ended, for example out of memory; `care run` continues the work."),
    "source failed": ("error", "Correct the test set's source; `care run` reads it again."),
    "judge failed": ("error", "Fix the server, file or limit that the message names; fits omit this judge until then."),
    "scores failed": ("error", "See `care status`; `care run` tries the items without a score again."),
    "fit failed": ("error", "Fix the reported problem and run `care run`; until then pages show the old fit."),
    "page failed": ("error", "Fix the reported problem and run `care run`; until then the old page remains."),
    "run failed": ("error", "Fix the reported problem, then run `care run`."),
    "held back": ("warning", "See `care fits diff`; accept the new fit, or correct the inputs that failed a check."),
    "model changed": ("warning", "Change the judge's `revision`, or pin the published fit with `care fits promote`."),
    "canary failed": ("warning", "Check that the judge's server answers; the next run repeats the retest."),
    "experiment failed": ("warning", "Fix the reported problem; fits do not depend on experiments."),
}
"""Severity and default advice for each kind of alert."""


class AlertError(CareError):
    """Error raised if a webhook does not accept an alert; ``answered`` is True if the webhook sent a response."""

    answered = False


@dataclass(frozen=True)
class Alert:
    """Alert to a person; CARE sends these attributes and ``text`` as a JSON document.

    Attributes
    ----------
    kind : str
        Kind of the cause, a key of ``KINDS``.
    what, what_to_do : str
        Sentences that describe the cause, and sentences with advice.
    testset, judge : str or None
        Names of the affected test set and judge.
    link : str or None
        URL of the test set's report page.
    asset, partition : str or None
        Failed asset and its partition key. If a fit awaits review, ``asset`` is the fit version.
    shared_by : tuple of str
        Other judges that failed for the same reason.
    workspace, severity, since, key : str
        Name of the workspace's folder; severity (critical, error or warning); time of the first report in ISO 8601;
        identifier of the cause.
    state : {"open", "resolved"}
        Whether the cause still exists.
    """

    kind: str
    what: str
    testset: str | None = None
    judge: str | None = None
    what_to_do: str = ""
    link: str | None = None
    asset: str | None = None
    partition: str | None = None
    shared_by: tuple[str, ...] = ()
    workspace: str = ""
    severity: str = ""
    since: str = ""
    key: str = ""
    state: Literal["open", "resolved"] = "open"

    @property
    def text(self) -> str:
        """Text of the alert in one line, for a chat or an email."""
        if self.state == "resolved":
            return f"CARE: {self.workspace}: resolved: {self.what}"
        return f"CARE: {self.workspace} needs attention. {self.what.rstrip('.')}. {self.what_to_do}"


@dataclass
class AlertLog:
    """Contents of ``alerts.json``: open alerts, unsent alerts, and the start of the last run that sent a heartbeat."""

    open: dict[str, Alert] = field(default_factory=dict[str, Alert])
    unsent: dict[str, str] = field(default_factory=dict[str, str])
    run_began: float = 0.0


class Notifier:
    """Sender of new and resolved alerts to the recipients that care.yaml names."""

    def __init__(
        self,
        settings: AlertSettings,
        root: Path,
        data: Path,
        hold: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._settings, self._root, self._file, self._hold = settings, root, data / _FILE, hold
        self._log = self._read() if self.has_recipient else AlertLog()

    def _read(self) -> AlertLog:
        from warehouse.storage import find_sound, read_document

        kept = find_sound(self._file, read_document)
        return AlertLog() if kept is None else record_of(AlertLog, kept)

    @property
    def has_recipient(self) -> bool:
        """Whether care.yaml names a file, a webhook or a heartbeat URL."""
        return any((self._settings.file, self._settings.webhook, self._settings.heartbeat))

    @property
    def open(self) -> Mapping[str, Alert]:
        """Unresolved alerts, as a mapping from each alert's key to the alert."""
        unsent = self._log.unsent
        return {key: alert for key, alert in self._log.open.items() if unsent.get(key) != "resolved"}

    def report(self, cause: Alert) -> bool:
        """Record an alert, and return whether the alert must be sent.

        If the alert is already open, its reason is updated. An open alert is sent again only if the old and new reasons
        differ in more than numbers and the severity is not ``warning``.
        """
        alert = replace(opened(cause, self._root.name), link=self._page(cause.testset))
        if not self.has_recipient:
            return False
        kept = self.open.get(alert.key)
        alert = alert if kept is None else replace(alert, since=kept.since)
        is_new = kept is None or (
            alert.severity != "warning" and without_counts(kept.what) != without_counts(alert.what)
        )
        if is_new:
            self._note(alert)
        elif kept != alert:
            with self._changed() as log:
                log.open[alert.key] = alert
        return is_new

    def _note(self, alert: Alert) -> None:
        write_line(self._settings, self._root, alert)
        with self._changed() as log:
            log.open[alert.key] = alert
            log.unsent[alert.key] = alert.state

    def send(self) -> None:
        """Send all unsent alerts to the webhook, including the alerts that other processes recorded.

        Raises ``AlertError`` if an alert was not accepted; the next call sends the remaining alerts.
        """
        failed: AlertError | None = None
        for alert in [replace(self._log.open[key], state=state) for key, state in self._log.unsent.items()]:
            try:
                post(self._settings, alert)
                self._mark_sent(alert)
            except AlertError as error:
                failed = error
                if not error.answered:
                    break
        if failed is not None:
            raise failed

    def _mark_sent(self, alert: Alert) -> None:
        with self._changed() as log:
            log.unsent.pop(alert.key, None)
            if alert.state == "resolved":
                log.open.pop(alert.key, None)

    def _page(self, testset: str | None) -> str | None:
        page = None if testset is None else self._file.parent / "report" / page_name(testset)
        return page.absolute().as_uri() if page is not None and page.is_file() else None

    def resolve(self, is_over: Callable[[Alert], bool]) -> None:
        """Resolve the open alerts for which ``is_over`` returns True."""
        for key, alert in self.open.items():
            if is_over(alert):
                is_unsent, over = key in self._log.unsent, replace(alert, state="resolved")
                self._note(over)
                if is_unsent:
                    self._mark_sent(over)

    def needs_heartbeat(self, began: float) -> bool:
        """Return whether a run's heartbeat is unsent, and no open alert is about an error or a blocked fit."""
        is_bad = any(alert.severity != "warning" or alert.kind == "held back" for alert in self.open.values())
        return self._settings.heartbeat is not None and self._log.run_began < began and not is_bad

    def send_heartbeat(self, began: float, bill: str = "") -> None:
        """Send the start time of a successful run and the cost of its judges to the heartbeat URL."""
        document = {"workspace": self._root.name, "night": began, "bill": bill}
        _post(self._settings.address("heartbeat"), document, "heartbeat")
        with self._changed() as log:
            log.run_began = began

    @contextmanager
    def _changed(self) -> Generator[AlertLog]:
        """Read the alert log, which another process may have changed; yield the log, and write it afterwards."""
        from warehouse.storage import write_document

        with self._hold():
            self._log = self._read()
            yield self._log
            write_document(self._file, document_of(self._log))


def without_counts(reason: str) -> str:
    """Remove the numbers from the reason for an alert, except the status codes of HTTP responses."""
    return re.sub(r"(?<!HTTP )\b\d[\d.,]*", "", reason)


def opened(cause: Alert, workspace: str) -> Alert:
    """Return an alert with its workspace, severity, advice, time and key filled in."""
    severity, advice = KINDS[cause.kind]
    return replace(
        cause,
        workspace=workspace,
        severity=severity,
        what_to_do=cause.what_to_do or advice,
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        key="/".join([workspace, cause.kind, cause.testset or "", cause.judge or "", cause.asset or ""]),
    )


def write_line(settings: AlertSettings, root: Path, alert: Alert) -> None:
    """Append an alert as a line of JSON to the file of alerts, if care.yaml names a file."""
    if settings.file is not None:
        path = resolve(settings.file, root)
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **asdict(alert), "text": alert.text}
        with path.open("a") as file:
            file.write(json.dumps(document) + "\n")


def post(settings: AlertSettings, alert: Alert) -> None:
    """Send an alert to the webhook, if care.yaml names a webhook.

    Raises ``AlertError`` after three attempts without success.
    """
    if settings.webhook is not None:
        address = settings.address("webhook")
        is_slack = address.startswith(("slack+", "https://hooks.slack.com/"))
        document = {"text": escape(alert.text, quote=False)} if is_slack else {**asdict(alert), "text": alert.text}
        _post(address.removeprefix("slack+"), document, "webhook")


def _post(address: str, document: Mapping[str, Any], setting: str) -> None:
    import httpx
    import tenacity

    from judges.engines.endpoint import proxy_of

    proxy, tls = proxy_of(address), httpx.create_ssl_context()
    attempts = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=tenacity.wait_exponential(multiplier=0.5, max=5),
        retry=tenacity.retry_if_exception_type(httpx.HTTPError),
        reraise=True,
    )
    try:
        with httpx.Client(proxy=proxy, verify=tls, trust_env=False, timeout=_TIMEOUT_S) as client:
            for attempt in attempts:
                with attempt, client.stream("POST", address, json=document) as response:  # the body is not read
                    response.raise_for_status()
    except httpx.HTTPError as error:
        # The whole address is a secret; its host is enough to find it.
        host = httpx.URL(address).host
        failed = AlertError(
            f"the request to {host} failed ({type(error).__name__}); check `alerts.{setting}` in care.yaml"
        )
        failed.answered = isinstance(error, httpx.HTTPStatusError)
        raise failed from None


def failure_message(event: dg.DagsterEvent) -> str:
    """Return the reason for a step's failure: CARE's own message, or the message of the original exception."""
    failure = event.step_failure_data
    if failure.user_failure_data is not None and failure.user_failure_data.description:
        return str(failure.user_failure_data.description)
    error, ours = failure.error, _class_names(CareError)
    while error is not None and error.cause is not None and error.cls_name not in ours:
        error = error.cause
    if error is None:
        return "the step failed"
    message = error.message.strip().split("\n")[0]
    # Python puts the class before the message. CARE's messages need no class; Dagster's classes do not help readers.
    nameless = error.cls_name in ours or message.startswith("dagster.")
    return message.partition(": ")[2] or message if nameless else message


def _class_names(kind: type[Exception]) -> set[str]:
    return {kind.__name__}.union(*(_class_names(derived) for derived in kind.__subclasses__()))
