"""Lease of a store: an object that names the only machine that may write, and that this machine renews.

A conditional write lets only one of several machines take the lease. A lease that has not been renewed for a minute,
by the clock of the waiting machine, is taken over; a machine takes over its own lease at once. A folder has no
conditional write: two machines that take over a lease within a second may both hold it until one of them renews it.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from care_ops.errors import WarehouseError
from warehouse.remote.objects import Objects, Version

KEY = "lease.json"
VALID_S = 60.0
"""Number of seconds after which another machine may take over a lease that is not renewed."""

_RENEWED_EVERY_S = 15.0
_POLL_S = 1.0
_log = logging.getLogger(__name__)


class Lease:
    """Lease of one store, which all processes share whose ``machine`` function returns the same name."""

    def __init__(self, objects: Objects, machine: Callable[[], str]) -> None:
        self._objects, self._machine, self._renewed = objects, machine, 0.0
        self.holds = False
        """Whether this process renews the lease."""

    def read(self) -> tuple[dict[str, Any], Version] | None:
        """Return the lease, with the keys ``machine`` and ``who``, and its version, or None if there is no lease."""
        current = self._objects.get(KEY)
        return None if current is None else (json.loads(current[0]), current[1])

    def take(self, who: str, report: Callable[[str], object], patience: float | None) -> None:
        """Wait until no other machine holds the lease, and take the lease for the command ``who``.

        ``report`` is called once if it must wait. Raises ``WarehouseError`` if another machine
        holds the lease for longer than ``patience``, in seconds.
        """
        started = seen = time.monotonic()
        waited_for: Version | None = None
        while True:
            current = self.read()
            if current is None:
                if self._write(who, "create"):
                    return
                continue
            holder, version = current
            if waited_for is None and holder["machine"] != self._machine() and patience != 0:
                report(f"waiting for {holder['who']}, who works on {self._objects.address}")
            if waited_for != version:
                waited_for, seen = version, time.monotonic()
            if holder["machine"] == self._machine() or time.monotonic() - seen > VALID_S:
                if self._write(who, version):
                    return
            elif patience is not None and time.monotonic() - started >= patience:
                raise WarehouseError(
                    f"{holder['who']} is at work on {self._objects.address}; wait for it to end, or stop it"
                )
            else:
                time.sleep(_POLL_S)

    @contextmanager
    def renewing(self, who: str) -> Generator[None]:
        """Renew the lease of this machine in a thread during a ``with`` block."""
        self._renewed, self.holds, ending = time.monotonic(), True, threading.Event()
        thread = threading.Thread(target=self._renew_until, args=(ending, who), name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()
            self.holds = False

    def give_back(self) -> None:
        """Release the lease of this machine; if the store does not answer, the lease expires."""
        try:
            if self._own() is not None:
                self._objects.delete([KEY])
        except WarehouseError as error:
            _log.warning("The lease could not be released and expires in %.0f s (%s).", VALID_S, error)

    def must_hold(self) -> None:
        """Raise ``WarehouseError`` if this process does not hold the lease or has lost it."""
        where = self._objects.address
        if not self.holds:
            raise WarehouseError(
                f"nothing was written to {where}, because this command does not hold its lease; run `care run`, which "
                "takes the lease"
            )
        if time.monotonic() - self._renewed > VALID_S:
            raise WarehouseError(
                f"this process has lost its lease of {where}: the store could not be reached for {VALID_S:.0f} s, or "
                "another machine has taken the lease; run the same command again to continue"
            )

    def _renew_until(self, ending: threading.Event, who: str) -> None:
        while not ending.wait(_RENEWED_EVERY_S):
            began = time.monotonic()
            try:
                version = self._own()
                if version is None:
                    self._renewed = float("-inf")
                elif self._write(who, version):  # otherwise another process of this machine has renewed it
                    self._renewed = began
            except WarehouseError as error:
                _log.info("The lease could not be renewed: %s", error)

    def _own(self) -> Version | None:
        current = self.read()
        return current[1] if current is not None and current[0]["machine"] == self._machine() else None

    def _write(self, who: str, over: Version | str) -> bool:
        """Write the lease if the store holds the version ``over``; in a folder, write the lease in any case."""
        content = json.dumps({"machine": self._machine(), "who": who, "written": time.time()}).encode()
        try:
            return self._objects.put(KEY, content, over) is not None
        except NotImplementedError:
            return self._objects.put(KEY, content) is not None
