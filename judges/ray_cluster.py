"""Connection to the Ray cluster whose address is in ``RAY_ADDRESS`` or care.yaml, or to a local Ray instance."""

import logging
import os
import socket
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

from care_ops.errors import JudgeError

_VARIABLE = "RAY_ADDRESS"

_LOCAL = "local"
"""Address that makes Ray start a local instance; without an address, Ray would join a cluster on this machine."""

_FOUND_BY_RAY = ("auto", _LOCAL)
"""Addresses that make Ray search for a cluster on this machine or start one."""

_ANSWER_TIMEOUT_S = 10.0
_ATTEMPTS = 3
"""Maximum number of connection attempts; with a busy cluster, the first attempt may time out in Ray."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RayConfig:
    """Address of the Ray cluster.

    Attributes
    ----------
    address : str, optional
        Address of a running Ray cluster, such as ray://host:10001; without an address, CARE starts a local Ray
        instance. The environment variable ``RAY_ADDRESS`` overrides this setting.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    address: str | None = None

    def cluster(self) -> str | None:
        """Return the address of the Ray cluster, or None for a local Ray instance."""
        return os.environ.get(_VARIABLE) or self.address

    def source(self) -> str:
        """Return the name of the environment variable or setting that contains the address of the cluster."""
        return _VARIABLE if os.environ.get(_VARIABLE) else "ray.address in care.yaml"


FROM_ENVIRONMENT = RayConfig()
"""Ray settings without an address in care.yaml; ``RAY_ADDRESS`` may still name a cluster."""


def connect(config: RayConfig = FROM_ENVIRONMENT) -> None:
    """Start a local Ray instance, or connect this process to the configured Ray cluster.

    Raises ``JudgeError`` if the cluster does not answer or requires a token that this process does not have.
    """
    import ray
    from ray.exceptions import AuthenticationError

    address, source = config.cluster(), config.source()
    _log.info("CARE connects to %s.", f"the Ray cluster at {address}" if address else "a local Ray instance")
    if address and address not in _FOUND_BY_RAY:
        _must_answer(address, source)
    options: dict[str, Any] = {} if address else {"num_cpus": 2, "include_dashboard": False}
    temporary = (ConnectionError,) if address else (ConnectionError, RuntimeError, TimeoutError)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ray.init(address=address or _LOCAL, log_to_driver=False, configure_logging=False, **options)
            return
        except (AuthenticationError, ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
            # after a timeout, Ray itself has already tried three times
            if attempt == _ATTEMPTS or not isinstance(error, temporary) or "connection timeout" in str(error):
                raise JudgeError(_why_not_connected(address, source, error)) from error
            _log.warning("Ray did not start (%s); CARE retries.", _in_short(error))
            ray.shutdown()
            time.sleep(0.5 * 2**attempt)


def _why_not_connected(address: str | None, source: str, error: BaseException) -> str:
    if address is None:
        return (
            f"CARE cannot start a local Ray instance ({_in_short(error)}); free memory and disk space in /tmp, or set "
            f"{_VARIABLE} to the address of a cluster"
        )
    return (
        f"{source} is {address}: Ray cannot connect to this address ({_in_short(error)}); set the address that "
        f"`ray start` printed, use the same release of Ray as the cluster, or unset {source}. If the cluster "
        "requires a token, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the content of ~/.ray/auth_token on the "
        "machine where `ray start` was called"
    )


def _in_short(error: BaseException) -> str:
    """Return the first and the last line of an error; the last line is the reason that Ray's server reports."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(dict.fromkeys([lines[0], lines[-1]]))


def _must_answer(address: str, source: str) -> None:
    """Raise ``JudgeError`` if no server listens at the address; without this check, ``ray.init`` would hang."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not host or not port.isdigit():
        raise JudgeError(
            f"{source} is {address}, which is not a Ray address; set it to host:port or ray://host:port, or unset it"
        )
    try:
        with closing(socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_TIMEOUT_S)):
            pass
    except OSError as error:
        raise JudgeError(
            f"{source} is {address}: no server answers there ({error}); start the cluster with `ray start --head`, or "
            f"unset {source} to use a local Ray instance"
        ) from error
