"""Alerts: a line to a webhook, to a file, or to both, where a night failed or did not come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from care_ops.errors import CareError
from orchestration.workspace import AlertSettings
from warehouse.testsets import resolve

if TYPE_CHECKING:
    import dagster as dg

    from care_ops.results.verdict import Verdict

_TIMEOUT_S = 10.0
_ATTEMPTS = 3


class AlertError(CareError):
    """A webhook did not take an alert."""


def send(settings: AlertSettings, root: Path, text: str) -> bool:
    """Send one alert; returns whether care.yaml names anything that takes it.

    The file is written first. A webhook gets ``{"text": ...}``, which Slack, Mattermost and the workflows of Teams
    read.

    Raises ``AlertError`` where three times in a row the webhook did not answer with a success.
    """
    if settings.file is not None:
        path = resolve(settings.file, root)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), "text": text}) + "\n")
    if settings.webhook is not None:
        _post(settings.address(), text)
    return settings.reach_anybody


def _post(address: str, text: str) -> None:
    import httpx
    import tenacity

    retry = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=tenacity.wait_exponential(multiplier=0.5, max=5),
        retry=tenacity.retry_if_exception_type(httpx.HTTPError),
        reraise=True,
    )
    try:
        retry(lambda: httpx.post(address, json={"text": text}, timeout=_TIMEOUT_S).raise_for_status())
    except httpx.HTTPError as error:
        # The whole address is a secret; its host is enough to find it.
        host = httpx.URL(address).host
        raise AlertError(
            f"the alert webhook at {host} did not take the alert ({type(error).__name__}); check `alerts.webhook`"
        ) from None


def night_text(workspace: str, verdicts: Mapping[str, Verdict], failures: Mapping[str, str]) -> str:
    """One line about a night that needs a person: the verdict on each test set, then what failed.

    Parameters
    ----------
    workspace : str
        Its name.
    verdicts : mapping testset -> Verdict
    failures : mapping of what failed -> why
    """
    told = [f"{name}: {' '.join([verdict.headline, *verdict.first_reasons])}" for name, verdict in verdicts.items()]
    failed = [f"{what} failed: {why}" for what, why in failures.items()]
    return " | ".join([f"CARE: {workspace} needs a person.", *told, *failed])


def failure_message(event: dg.DagsterEvent) -> str:
    """Why a step failed, without the stack: CARE's own sentence where it raised the error, else what failed first."""
    failure = event.step_failure_data
    if failure.user_failure_data is not None and failure.user_failure_data.description:
        return str(failure.user_failure_data.description)
    error, ours = failure.error, _class_names(CareError)
    while error is not None and error.cause is not None and error.cls_name not in ours:
        error = error.cause
    if error is None:
        return "the step failed"
    message = error.message.strip().split("\n")[0]
    # Python puts the name of the class before its message. Our own messages are sentences without it, and Dagster's
    # names mean nothing to whoever reads an alert.
    nameless = error.cls_name in ours or message.startswith("dagster.")
    return message.partition(": ")[2] or message if nameless else message


def _class_names(kind: type[Exception]) -> set[str]:
    """Names of an exception and of all that are derived from it."""
    return {kind.__name__}.union(*(_class_names(derived) for derived in kind.__subclasses__()))
