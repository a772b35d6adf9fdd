"""The lease of a store: an object that names the only machine that may write, and that this machine renews.

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
from typing import Literal

from care_ops.errors import WarehouseError
from warehouse.remote.objects import Objects, Version

KEY = "lease.json"
VALID_S = 60.0
"""Seconds after which a lease that is not renewed may be taken over."""

_RENEWED_EVERY_S = 15.0
_POLL_S = 1.0

_log = logging.getLogger(__name__)


class Lease:
    """The lease of one store; processes of one machine share it by the name that ``machine`` returns."""

    def __init__(self, objects: Objects, machine: Callable[[], str]) -> None:
        self._objects, self._machine = objects, machine
        self._who, self._renewed = "", 0.0
        self.holds = False
        """Whether this process renews the lease."""

    def holder(self) -> str | None:
        """Return the command that holds the lease; None if no command holds it."""
        current = self._objects.get(KEY)
        return None if current is None else str(json.loads(current[0])["who"])

    def take(self, who: str, report: Callable[[str], object], patience: float | None) -> None:
        """Wait until no other machine holds the lease, and take it for ``who``, the command that others see.

        If it has to wait, ``report`` is called once with the reason. Raises ``WarehouseError`` if another machine
        holds the lease for longer than ``patience``, in seconds.
        """
        self._who, is_reported = who, False
        started = seen = time.monotonic()
        waited_for: Version | None = None
        while True:
            current = self._objects.get(KEY)
            if current is None:
                if self._write("create"):
                    return
                continue
            holder, version = json.loads(current[0]), current[1]
            if waited_for != version:
                waited_for, seen = version, time.monotonic()
            if holder["machine"] == self._machine() or time.monotonic() - seen > VALID_S:
                if self._write(version):
                    return
                continue
            if patience is not None and time.monotonic() - started >= patience:
                raise WarehouseError(
                    f"{holder['who']} is at work on {self._objects.address}; wait for it to end, or stop it"
                )
            if not is_reported:
                is_reported = True
                report(f"waiting for {holder['who']}, who works on {self._objects.address}")
            time.sleep(_POLL_S)

    @contextmanager
    def renewing(self, who: str) -> Generator[None]:
        """Renew this machine's lease during the block; other processes of this machine may continue after it."""
        self._who, self._renewed, self.holds = who, time.monotonic(), True
        ending = threading.Event()
        thread = threading.Thread(target=self._renew_until, args=(ending,), name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()
            self.holds = False

    def give_back(self) -> None:
        """Let other machines take the lease; if the store does not answer, it expires."""
        try:
            if self._own() is not None:
                self._objects.delete([KEY])
        except WarehouseError as error:
            _log.warning("The lease could not be released and expires in %.0f s (%s).", VALID_S, error)

    def must_hold(self) -> None:
        """Raise ``WarehouseError`` if this process does not hold the lease or has lost it."""
        if not self.holds:
            raise WarehouseError(
                f"nothing was written to {self._objects.address}, because this command does not hold its lease; run "
                "`care run`, which takes the lease"
            )
        if time.monotonic() - self._renewed > VALID_S:
            raise WarehouseError(
                f"this process has lost its lease of {self._objects.address}: the store could not be reached for "
                f"{VALID_S:.0f} s, or another machine has taken the lease; run the same command again to continue"
            )

    def _renew_until(self, ending: threading.Event) -> None:
        while not ending.wait(_RENEWED_EVERY_S):
            try:
                began, version = time.monotonic(), self._own()
                if version is not None and not self._write(version):
                    version = self._own()  # another process of this machine may have renewed it
                self._renewed = began if version is not None else float("-inf")
            except WarehouseError as error:
                _log.info("The lease could not be renewed: %s", error)

    def _write(self, over: Version | Literal["create"]) -> bool:
        """Write the lease if the store holds the required version; in a folder, write it in any case."""
        content = json.dumps({"machine": self._machine(), "who": self._who, "written": time.time()}).encode()
        try:
            return self._objects.put(KEY, content, over) is not None
        except NotImplementedError:
            return self._objects.put(KEY, content) is not None

    def _own(self) -> Version | None:
        """Return the version of the lease in the store if it names this machine."""
        current = self._objects.get(KEY)
        return current[1] if current is not None and json.loads(current[0])["machine"] == self._machine() else None
