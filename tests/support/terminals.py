"""Runner of commands in a pseudo-terminal; a test presses the keys."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Sequence
from typing import Any


class Terminal:
    """Process in a pseudo-terminal; it asks questions that end with a text such as ``> ``."""

    def __init__(self, command: Sequence[str], asks: str, **options: Any) -> None:
        self.asks, self.seen = asks, ""
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, **options
        )
        os.close(slave)

    def until_asked(self, asks: str | None = None) -> str:
        """Return the screen's text up to the next question, or to the end."""
        shown, deadline = "", time.monotonic() + 120
        while (asks or self.asks) not in shown:
            assert time.monotonic() < deadline, shown
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(self.master, 65536).decode(errors="replace"))
            except OSError:  # the other end is closed
                break
        self.seen += shown
        return shown

    def press(self, key: str, asks: str | None = None) -> str:
        """Press a key once the terminal reads single keys, and wait for the next question."""
        deadline = time.monotonic() + 60
        while termios.tcgetattr(self.master)[3] & termios.ICANON:
            assert time.monotonic() < deadline, self.seen
            time.sleep(0.01)
        os.write(self.master, key.encode())
        return self.until_asked(asks)

    def type(self, line: str) -> str:
        """Type a line and Enter, and wait for the next question."""
        os.write(self.master, f"{line}\n".encode())
        return self.until_asked()

    def end(self, how: signal.Signals | None = None) -> int:
        """Wait for the process or kill it, and return its exit code."""
        if how is not None:
            self.process.send_signal(how)
        code = self.process.wait(60)
        os.close(self.master)
        return code
