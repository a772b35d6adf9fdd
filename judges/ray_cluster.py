"""Connection to a Ray cluster that the environment or care.yaml names, or to an embedded Ray."""

import logging
import os
import socket
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

from care_ops.errors import JudgeError

_VARIABLE = "RAY_ADDRESS"

_EMBEDDED = "local"
"""Address with which Ray starts an embedded cluster; without an address, Ray would join any cluster of this machine."""

_FOUND_BY_RAY = ("auto", _EMBEDDED)
"""Addresses with which Ray itself searches or starts a cluster on this machine."""

_ANSWER_TIMEOUT_S = 10.0
_ATTEMPTS = 3
"""Number of attempts to connect, because a busy cluster may exceed its own timeout."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RayConfig:
    """Address of the Ray cluster.

    Attributes
    ----------
    address : str, optional
        Address of a running Ray cluster, such as ray://host:10001; without it, Ray is embedded. The environment
        variable ``RAY_ADDRESS`` overrides it.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    address: str | None = None

    def cluster(self) -> str | None:
        """Return the address of the Ray cluster, or None for an embedded Ray."""
        return os.environ.get(_VARIABLE) or self.address

    def source(self) -> str:
        """Return the name of the setting or environment variable that holds the address of the cluster."""
        return _VARIABLE if os.environ.get(_VARIABLE) else "ray.address in care.yaml"


FROM_ENVIRONMENT = RayConfig()
"""Settings of Ray without an address in care.yaml; the environment may name a cluster."""


def connect(config: RayConfig = FROM_ENVIRONMENT) -> None:
    """Start an embedded Ray, or connect this process to the Ray cluster.

    Raises ``JudgeError`` if the cluster does not answer or requires a token that this process does not have.
    """
    import ray
    from ray.exceptions import AuthenticationError

    address, source = config.cluster(), config.source()
    _log.info("Ray starts with %s.", f"the cluster at {address}" if address else "an embedded cluster")
    if address and address not in _FOUND_BY_RAY:
        _must_answer(address, source)
    options: dict[str, Any] = {} if address else {"num_cpus": 2, "include_dashboard": False}
    temporary = (ConnectionError,) if address else (ConnectionError, RuntimeError, TimeoutError)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ray.init(address=address or _EMBEDDED, log_to_driver=False, configure_logging=False, **options)
            return
        except (AuthenticationError, ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
            # after a timeout, Ray itself has already tried three times
            if attempt == _ATTEMPTS or not isinstance(error, temporary) or "connection timeout" in str(error):
                raise JudgeError(_why_not_connected(address, source, error)) from error
            _log.warning("Ray did not start (%s); CARE tries again.", _in_short(error))
            ray.shutdown()
            time.sleep(0.5 * 2**attempt)


def _why_not_connected(address: str | None, source: str, error: BaseException) -> str:
    if address is None:
        return (
            f"an embedded Ray could not be started ({_in_short(error)}); free memory and space in /tmp, or name a "
            f"cluster in {_VARIABLE}"
        )
    return (
        f"{source} is {address}: Ray cannot connect to it ({_in_short(error)}); check that it is the address that "
        f"`ray start` has printed and that the cluster runs the same release of Ray, or unset {source}. If the cluster "
        "asks for a token, copy the file ~/.ray/auth_token of the machine where `ray start` was called, or its content "
        "into RAY_AUTH_TOKEN, and set RAY_AUTH_MODE=token"
    )


def _in_short(error: BaseException) -> str:
    """Return the first and the last line of an error, because the last line has the reason of Ray's server."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(dict.fromkeys([lines[0], lines[-1]]))


def _must_answer(address: str, source: str) -> None:
    """Raise ``JudgeError`` if no server listens at an address, because ``ray.init`` would wait and ignore signals."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not host or not port.isdigit():
        raise JudgeError(
            f"{source} is {address}, which is not an address of Ray; write host:port or ray://host:port, or unset it"
        )
    try:
        with closing(socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_TIMEOUT_S)):
            pass
    except OSError as error:
        raise JudgeError(
            f"{source} is {address}: no server answers there ({error}); start the cluster with `ray start --head`, or "
            f"unset {source} for an embedded Ray"
        ) from error
