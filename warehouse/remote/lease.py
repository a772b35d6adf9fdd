"""One machine writes to a store at a time: the lease is an object that says which, and is renewed while it works.

Of two machines that take it at once a conditional write lets one win. A lease that has not been renewed for a minute,
by the clock of the machine that waits, is taken over; a machine takes its own over at once. A folder has no conditional
replacement: two machines that take over a lease within the same second may then both hold it until one renews it.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
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
        """Who holds the lease, in words; None where nobody does."""
        current = self._objects.get(KEY)
        return None if current is None else str(json.loads(current[0])["who"])

    def take(self, who: str, say: Callable[[str], object], patience: float | None) -> None:
        """Wait until no other machine holds the lease, and take it; others are told ``who`` has it.

        Where there is a wait, ``say`` is called once with a sentence that names whom it is for. Raises
        ``WarehouseError`` where another machine held it for as long as there is ``patience``, in seconds.
        """
        self._who, told = who, False
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
                if self._take_over(version):
                    return
                continue
            if patience is not None and time.monotonic() - started >= patience:
                raise WarehouseError(
                    f"{holder['who']} is at work on {self._objects.address}; wait for it to end, or stop it"
                )
            if not told:
                told = True
                say(f"waiting for {holder['who']}, who works on {self._objects.address}")
            time.sleep(_POLL_S)

    def begin_renewing(self, who: str) -> None:
        """Keep the lease, which this machine has, until ``end_renewing``."""
        self._who, self._lost, self._renewed = who, False, time.monotonic()
        self._ending.clear()
        self._thread = threading.Thread(target=self._renew_until_end, name="lease", daemon=True)
        self._thread.start()

    def end_renewing(self) -> None:
        """Stop renewing; other processes of this machine may go on."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def give_back(self) -> None:
        """Let other machines take the lease; where the store does not answer, it ends by itself."""
        try:
            if self._own() is not None:
                self._objects.delete([KEY])
        except WarehouseError as error:
            _log.warning("The lease could not be given back and ends in %.0f s (%s).", VALID_S, error)

    @property
    def holds(self) -> bool:
        """Whether this process renews the lease."""
        return self._thread is not None

    def must_hold(self) -> None:
        """Raise ``WarehouseError`` where this process does not hold the lease, or not any more."""
        if not self.holds:
            raise WarehouseError(
                f"{self._objects.address} is written by commands that hold it alone, and this one does not; "
                "run `care run`, which does"
            )
        if self._lost or time.monotonic() - self._renewed > VALID_S:
            raise WarehouseError(
                f"{self._objects.address} is no longer held by this process, because it could not be reached for "
                f"{VALID_S:.0f} s or another machine has taken it over; run the same command again, which goes on "
                "where this one ended"
            )

    def _take_over(self, version: Version) -> bool:
        try:
            return self._objects.put(KEY, self._document(), version) is not None
        except NotImplementedError:
            self._objects.delete([KEY])
            return self._objects.put(KEY, self._document(), "create") is not None

    def _renew_until_end(self) -> None:
        while not self._ending.wait(_RENEWED_EVERY_S):
            try:
                began, version = time.monotonic(), self._own()
                if version is not None and not self._write_over(version):
                    version = self._own()  # another process of this machine may have renewed it
                self._lost, self._renewed = version is None, self._renewed if version is None else began
            except WarehouseError as error:
                _log.info("The lease could not be renewed: %s", error)

    def _write_over(self, version: Version) -> bool:
        try:
            return self._objects.put(KEY, self._document(), version) is not None
        except NotImplementedError:
            return self._objects.put(KEY, self._document()) is not None

    def _own(self) -> Version | None:
        """The version of the lease in the store, where that names this machine."""
        current = self._objects.get(KEY)
        return current[1] if current is not None and json.loads(current[0])["machine"] == self._machine() else None

    def _document(self) -> bytes:
        renewed = datetime.now(UTC).isoformat()
        return json.dumps({"machine": self._machine(), "who": self._who, "renewed": renewed}).encode()
