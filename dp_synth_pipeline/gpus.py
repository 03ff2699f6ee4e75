"""Whole GPUs of this machine, each held by an operating system lock that the kernel frees when its holder dies."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from dp_synth_pipeline.errors import InvalidInput

DEVICES = "CUDA_VISIBLE_DEVICES"


def devices(count: int | None = None) -> list[str]:
    """Return the names of the GPUs that may be used: those that CUDA_VISIBLE_DEVICES lists, else all of this machine.

    Args:
        count: the number of slots to offer instead, named 0, 1, ...
    """
    shown = os.environ.get(DEVICES)
    found = [name.strip() for name in shown.split(",")] if shown is not None else _nvidia()
    found = [name for name in found if name and name != "-1"]
    if count is None:
        return found
    if shown and count > len(found):
        raise InvalidInput(
            f"the executor's local.gpus is {count}, but {DEVICES} shows {len(found)}; lower it, or show more."
        )
    return found[:count] if found and count <= len(found) else [str(i) for i in range(count)]


def _nvidia() -> list[str]:
    """Names as CUDA counts them: a container that was lent only /dev/nvidia3 calls it 0."""
    return [str(i) for i, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


@dataclass(frozen=True)
class Held:
    """Some slots; the open files hold them, here and in every process that inherits them."""

    names: tuple[str, ...]
    files: tuple[int, ...]

    def close(self) -> None:
        """Close this process's files; the slots stay held by the step that inherited them, until it ends."""
        for file in self.files:
            os.close(file)


class GpuSlots:
    """The slots of one machine, shared by every run whose `folder` is the same."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.names = names
        self.folder = folder / re.sub(r"\W", "_", socket.gethostname())  # a shared folder holds several machines

    def acquire(self, count: int) -> Held | None:
        """Hold `count` slots, all of them or none; None when too few are free now. Never waits for a step to end.

        Raises:
            InvalidInput: when this machine will never have that many.
        """
        if count > len(self.names):
            raise InvalidInput(
                f"a step asks for {count} GPUs, but this machine offers {len(self.names)}. Ask for fewer, or set the "
                f"executor's local.gpus, or give the step another target."
            )
        if not count:
            return Held((), ())
        self.folder.mkdir(parents=True, exist_ok=True)
        gate = self._lock("gate", fcntl.LOCK_EX)  # two takers of several slots must not each keep a part
        try:
            return self._take(count)
        finally:
            if gate is not None:
                os.close(gate)

    def _take(self, count: int) -> Held | None:
        taken: dict[str, int] = {}
        for name in self.names:
            if len(taken) < count and (file := self._lock(name, fcntl.LOCK_EX | fcntl.LOCK_NB)) is not None:
                taken[name] = file
        held = Held(tuple(taken), tuple(taken.values()))
        if len(taken) == count:
            return held
        held.close()
        return None

    def _lock(self, name: str, how: int) -> int | None:
        file = os.open(self.folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', name)}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, how)
        except BlockingIOError:
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        return file
