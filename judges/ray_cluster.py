"""Connecting to Ray: the cluster that the environment or care.yaml names, or an embedded one."""

import logging
import os
import socket
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

from care_ops.errors import JudgeError

_VARIABLE = "RAY_ADDRESS"
"""Environment variable that names a cluster, for this and for every other program that uses Ray."""

_EMBEDDED = "local"
"""For this address Ray starts a cluster of its own. For none at all it would join whatever runs on this machine, or has
once run there and left its address behind.
"""

_FOUND_BY_RAY = ("auto", _EMBEDDED)
"""Addresses for which Ray itself looks for a cluster on this machine, or starts one."""

_ANSWER_TIMEOUT_S = 10.0
_ATTEMPTS = 3
"""A cluster starts a process for each client that comes, and a busy machine takes longer than the cluster waits."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RayConfig:
    """Where Ray runs.

    Attributes
    ----------
    address : str, optional
        Address of a running Ray cluster, like ray://host:10001, on which judges score that run on Ray; none for an
        embedded Ray. The environment variable ``RAY_ADDRESS`` takes its place.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    address: str | None = None

    def cluster(self) -> str | None:
        """The cluster's address; None for an embedded Ray."""
        return os.environ.get(_VARIABLE) or self.address

    def source(self) -> str:
        """Where the cluster's address was given."""
        return _VARIABLE if os.environ.get(_VARIABLE) else "ray.address in care.yaml"


FROM_ENVIRONMENT = RayConfig()
"""The cluster that the environment names, if it names one."""


def connect(config: RayConfig = FROM_ENVIRONMENT) -> None:
    """Start Ray for this process.

    Raises ``JudgeError`` where nobody answers at the cluster's address, or the cluster asks for a token that this
    process does not have.
    """
    import ray
    import tenacity
    from ray.exceptions import AuthenticationError

    address, source = config.cluster(), config.source()
    _log.info("Starting Ray: %s.", f"the cluster at {address}" if address else "an embedded one")
    if address and address not in _FOUND_BY_RAY:
        _must_answer(address, source)
    options: dict[str, Any] = {} if address else {"num_cpus": 2, "include_dashboard": False}
    passing = (ConnectionError,) if address else (ConnectionError, RuntimeError, TimeoutError)

    def tell(state: tenacity.RetryCallState) -> None:
        """Say at once that it is tried again, and leave nothing of what has failed."""
        error = state.outcome.exception() if state.outcome else None
        _log.warning("Ray did not start a client (%s); it is tried again.", _in_short(error))
        ray.shutdown()

    again = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=tenacity.wait_exponential(multiplier=0.5),
        retry=tenacity.retry_if_exception(lambda e: isinstance(e, passing) and not _is_for_good(e)),
        before_sleep=tell,
        reraise=True,
    )
    try:
        again(ray.init, address=address or _EMBEDDED, log_to_driver=False, configure_logging=False, **options)
    except (AuthenticationError, ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        if address is None:
            raise JudgeError(
                f"an embedded Ray could not be started ({_in_short(error)}); see whether memory and /tmp have room, or "
                f"name a cluster in {_VARIABLE}"
            ) from error
        if _asks_for_a_token(error):
            raise JudgeError(
                f"{source} is {address}: this cluster asks for a token that this process does not have, or has "
                "another one than. Copy the file ~/.ray/auth_token of the machine where `ray start` was called, or its "
                "content into RAY_AUTH_TOKEN, and set RAY_AUTH_MODE=token"
            ) from error
        raise JudgeError(
            f"{source} is {address}: Ray cannot connect to it ({_in_short(error)}); see that it is the address which "
            "`ray start` has printed, that the cluster runs the same release of Ray and that RAY_AUTH_TOKEN is its "
            f"token, if it has one, or unset {source}"
        ) from error


def _in_short(error: BaseException | None) -> str:
    """The first line of an error, and the last one, where Ray's own server says why."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(dict.fromkeys([lines[0], lines[-1]]))


def _must_answer(address: str, source: str) -> None:
    """Refuse an address at which nothing listens: ``ray.init`` would wait there, and ignore that it is told to end."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not host or not port.isdigit():
        raise JudgeError(f"{source} is {address}; give it as host:port or ray://host:port, or unset it")
    try:
        with closing(socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_TIMEOUT_S)):
            pass
    except OSError as error:
        raise JudgeError(
            f"{source} is {address}: nobody answers there ({error}); start the cluster with `ray start --head`, or "
            f"unset {source} for an embedded Ray"
        ) from error


def _is_for_good(error: BaseException) -> bool:
    """Whether another try would end as this one: Ray has tried a client that had no answer three times itself."""
    return _asks_for_a_token(error) or "connection timeout" in str(error)


def _asks_for_a_token(error: BaseException) -> bool:
    """Whether an error, or what caused it, is about a token; Ray raises several kinds of errors for it."""
    from ray.exceptions import AuthenticationError

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AuthenticationError) or "authentication" in str(cause).lower():
            return True
        cause = cause.__cause__ or cause.__context__
    return False
