"""The lease of a store: an object that names the only machine that may write, and that this machine renews.

If two machines take the lease at once, a conditional write lets only one of them succeed. A lease that has not been
renewed for a minute, by the clock of the waiting machine, is taken over; a machine takes over its own lease at once. A
folder has no conditional write: two machines that take over a lease within a second may both hold it until one of
them renews it.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime

from care_ops.errors import WarehouseError
from warehouse.remote.objects import Objects, Version

KEY = "lease.json"
VALID_S = 60.0
"""Seconds after which a lease that is not renewed may be taken over."""

_RENEWED_EVERY_S = 15.0
_POLL_S = 1.0

_log = logging.getLogger(__name__)


class Lease:
    """The lease of one store, which processes of one machine share by the name that ``machine`` returns."""

    def __init__(self, objects: Objects, machine: Callable[[], str]) -> None:
        self._objects, self._machine = objects, machine
        self._who, self._renewed, self._lost = "", 0.0, False
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def holder(self) -> str | None:
        """Return the command that holds the lease; None if nobody does."""
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
                if self._objects.put(KEY, self._document(), "create"):
                    return
                continue
            holder, version = json.loads(current[0]), current[1]
            if waited_for != version:
                waited_for, seen = version, time.monotonic()
            if holder["machine"] == self._machine() or time.monotonic() - seen > VALID_S:
                if self._replace(version):
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
        self._who, self._lost, self._renewed = who, False, time.monotonic()
        self._ending.clear()
        thread = self._thread = threading.Thread(target=self._renew_until_end, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()
            self._thread = None

    def give_back(self) -> None:
        """Let other machines take the lease; if the store does not answer, it expires."""
        try:
            if self._own() is not None:
                self._objects.delete([KEY])
        except WarehouseError as error:
            _log.warning("The lease could not be released and expires in %.0f s (%s).", VALID_S, error)

    @property
    def holds(self) -> bool:
        """Whether this process renews the lease."""
        return self._thread is not None

    def must_hold(self) -> None:
        """Raise ``WarehouseError`` if this process does not hold the lease or has lost it."""
        if not self.holds:
            raise WarehouseError(
                f"nothing was written to {self._objects.address}, because this command does not hold its lease; run "
                "`care run`, which takes the lease"
            )
        if self._lost or time.monotonic() - self._renewed > VALID_S:
            raise WarehouseError(
                f"this process has lost its lease of {self._objects.address}: the store could not be reached for "
                f"{VALID_S:.0f} s, or another machine has taken the lease; run the same command again to continue"
            )

    def _renew_until_end(self) -> None:
        while not self._ending.wait(_RENEWED_EVERY_S):
            try:
                began, version = time.monotonic(), self._own()
                if version is not None and not self._replace(version):
                    version = self._own()  # another process of this machine may have renewed it
                self._lost, self._renewed = version is None, self._renewed if version is None else began
            except WarehouseError as error:
                _log.info("The lease could not be renewed: %s", error)

    def _replace(self, version: Version) -> bool:
        """Replace one version of the lease; a folder has no conditional write, so it is written in any case."""
        try:
            return self._objects.put(KEY, self._document(), version) is not None
        except NotImplementedError:
            return self._objects.put(KEY, self._document()) is not None

    def _own(self) -> Version | None:
        """Return the version of the lease in the store if it names this machine."""
        current = self._objects.get(KEY)
        return current[1] if current is not None and json.loads(current[0])["machine"] == self._machine() else None

    def _document(self) -> bytes:
        renewed = datetime.now(UTC).isoformat()
        return json.dumps({"machine": self._machine(), "who": self._who, "renewed": renewed}).encode()
