"""Who writes next to a SQLite ledger: a queue in front of SQLite's own lock, which alone decides who may write.

SQLite lets a writer that finds the lock taken sleep for up to a tenth of a second before it looks again, so that among
many some wait a hundred times as long as others. Here they wait in the kernel, and are woken when the lock is free.
A queue that does not work (a file system without locks, a process that was stopped while it held it) costs time only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # no such locks on this system: SQLite's own waiting is all there is
    fcntl = None


@contextmanager
def turn(path: Path, seconds: float) -> Iterator[None]:
    """Hold this process's turn at the ledger `path`, or go on without one after `seconds`."""
    if fcntl is None:
        yield
        return
    try:
        handle = os.open(path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:
        yield
        return
    late = False
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            late = not _wait(handle, seconds)
        except OSError:
            pass
        yield
    finally:
        if not late:  # else whoever still waits in the kernel closes it
            _release(handle)


def _wait(handle: int, seconds: float) -> bool:
    """Wait in the kernel, which has no time limit of its own, and say whether the turn came in time."""
    state, guard, come = {"gave up": False}, threading.Lock(), threading.Event()

    def wait() -> None:
        assert fcntl is not None
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        with guard:
            if state["gave up"]:
                _release(handle)
            come.set()

    threading.Thread(target=wait, daemon=True).start()
    if come.wait(seconds):
        return True
    with guard:
        state["gave up"] = not come.is_set()
    return not state["gave up"]


def _release(handle: int) -> None:
    assert fcntl is not None
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)  # by word, since a process that was forked meanwhile holds a copy
    os.close(handle)
