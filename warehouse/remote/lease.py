"""One machine writes to a store at a time: the lease is an object that says which, and is renewed while it works.

Taking the lease is a conditional write, which of two machines one wins. A lease that has not been renewed for a minute,
by the clock of the machine that waits for it, is that of a process which was killed, and is taken over; the machine
itself takes its own over at once. Where a store does not promise conditional writes, a warning says so, once for each
data folder: two machines that begin within the same second may then both believe that they hold it.
"""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from care_ops.errors import WarehouseError
from warehouse.remote.index import Index
from warehouse.remote.objects import Objects, Version

KEY = "lease.json"
VALID_S = 60.0
"""Seconds after which a lease that is not renewed may be taken over."""

_RENEWED_EVERY_S = 15.0
_POLL_S = 1.0
_MACHINE, _TOLD = "machine", "conditional writes"
_NOT_PROMISED = "not promised"

_log = logging.getLogger(__name__)


class Lease:
    """The lease of one store, as this machine sees it; processes of one machine share it, by its name in the index."""

    def __init__(self, objects: Objects, index: Index) -> None:
        self._objects, self._index = objects, index
        self._who = ""
        self._renewed = 0.0
        self._lost = False
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
        self._who = who
        started = seen = time.monotonic()
        waited_for: Version | None = None
        told = False
        while True:
            current = self._objects.get(KEY)
            if current is None and self._create():
                break
            if current is None:
                continue
            content, version = current
            holder = json.loads(content)
            if waited_for != version:
                waited_for, seen = version, time.monotonic()
            is_over = holder["machine"] == self._machine() or time.monotonic() - seen > VALID_S
            if is_over and self._take_over(version):
                break
            if is_over:
                continue
            if patience is not None and time.monotonic() - started >= patience:
                raise WarehouseError(
                    f"{holder['who']} is at work on {self._objects.address}; wait for it to end, or stop it"
                )
            if not told:
                told = True
                say(f"waiting for {holder['who']}, who works on {self._objects.address}")
            time.sleep(_POLL_S)
        self._say_what_is_not_promised()

    def begin_renewing(self, who: str) -> None:
        """Keep the lease, which this machine has, until ``end_renewing``."""
        self._who, self._lost = who, False
        self._renewed = time.monotonic()
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

    def must_hold(self) -> None:
        """Raise ``WarehouseError`` where this process does not hold the lease, or not any more."""
        if self._thread is None:
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

    @property
    def holds(self) -> bool:
        """Whether this process renews the lease."""
        return self._thread is not None

    def _create(self) -> bool:
        return self._objects.create(KEY, self._document())

    def _take_over(self, version: Version) -> bool:
        """Take the lease from one who no longer renews it; by deleting it first where it cannot be replaced."""
        try:
            return self._replace(version)
        except NotImplementedError:
            self._objects.delete([KEY])
            return self._create()

    def _replace(self, version: Version) -> bool:
        """Write the lease in the place of a version; ``NotImplementedError`` where the store does not compare them."""
        if self._index.fact(_TOLD) == _NOT_PROMISED:
            raise NotImplementedError
        return self._objects.replace(KEY, self._document(), version)

    def _renew_until_end(self) -> None:
        while not self._ending.wait(_RENEWED_EVERY_S):
            try:
                self._renew()
            except WarehouseError as error:
                _log.info("The lease could not be renewed: %s", error)

    def _renew(self) -> None:
        """Write the lease anew, unless another machine has taken it over."""
        began, version = time.monotonic(), self._own()
        if version is not None and not self._renewed_in_place_of(version):
            version = self._own()  # another process of this machine may have renewed it
        self._lost = version is None
        if not self._lost:
            self._renewed = began

    def _renewed_in_place_of(self, version: Version) -> bool:
        try:
            return self._replace(version)
        except NotImplementedError:
            self._objects.put(KEY, self._document())
            return True

    def _own(self) -> Version | None:
        """The version of the lease in the store, where that names this machine."""
        current = self._objects.get(KEY)
        return current[1] if current is not None and json.loads(current[0])["machine"] == self._machine() else None

    def _document(self) -> bytes:
        moment = datetime.now(UTC).isoformat()
        return json.dumps({"machine": self._machine(), "who": self._who, "renewed": moment}).encode()

    def _machine(self) -> str:
        """A name for this data folder, which no other has; made on first use."""
        name = self._index.fact(_MACHINE)
        if name is None:
            name = uuid.uuid4().hex
            self._index.keep(_MACHINE, name)
        return name

    def _say_what_is_not_promised(self) -> None:
        """Try once, while the lease is held, whether the store refuses what it should refuse; warn if it does not."""
        if self._index.fact(_TOLD) is not None:
            return
        refuses, first = not self._create(), self._own()
        try:
            promised = refuses and first is not None and self._replace(first) and not self._replace(first)
        except NotImplementedError:
            promised = False
        if not promised:
            _log.warning(
                "%s does not promise conditional writes: let one machine at a time work on it, since two that begin "
                "within the same second may not notice each other",
                self._objects.address,
            )
        self._index.keep(_TOLD, "promised" if promised else _NOT_PROMISED)
