"""Alerts: a line to a webhook, to a file, or to both, where a night failed or did not come.

Belongs here: sending. Does not: deciding what is worth an alert (``sensors``).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from care_ops.errors import CareError
from orchestration.workspace import AlertSettings
from warehouse.testsets import resolve

_TIMEOUT_S = 10.0
_ATTEMPTS = 3


class AlertError(CareError):
    """A webhook did not take an alert."""


def send(settings: AlertSettings, root: Path, text: str) -> bool:
    """Send one alert; returns whether anything is configured to take it.

    The file is written first. A webhook gets ``{"text": ...}``, which Slack, Mattermost and Teams' workflows
    read.

    Raises
    ------
    AlertError
        The webhook did not answer with a success, three times.
    """
    if settings.file is not None:
        path = resolve(settings.file, root)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), "text": text}) + "\n")
    if settings.webhook is not None:
        _post(settings.address(), text)
    return settings.file is not None or settings.webhook is not None


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
        # An address is a secret: its host is enough to find it.
        host = httpx.URL(address).host
        raise AlertError(
            f"the alert webhook at {host} did not take the alert ({type(error).__name__}); check `alerts.webhook`"
        ) from None


def _names(kind: type[Exception]) -> set[str]:
    """Names of an exception and of all that are derived from it."""
    return {kind.__name__}.union(*(_names(derived) for derived in kind.__subclasses__()))


def words(event: Any) -> str:
    """The failure's own words, without the stack: those of CARE where it has any, else of what failed first."""
    error = event.step_failure_data.error
    while error is not None and error.cause is not None and error.cls_name not in _names(CareError):
        error = error.cause
    user = event.step_failure_data.user_failure_data
    if user is not None and user.description:
        return str(user.description)
    return error.message.strip().split("\n")[0] if error is not None else "the step failed"
