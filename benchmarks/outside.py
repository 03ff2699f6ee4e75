"""Runs what others wrote: each program in an environment of its own outside the project, with pinned versions."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = "source"


@dataclass(frozen=True)
class Outside:
    """A program of this folder that calls other people's packages.

    Args:
        script: its path below `benchmarks/`.
        needs: pip requirements, installed one after the other; the last one, pinned, names the environment, so programs
            whose last one is the same share it.
        without: packages that must not stay there.
        more: options that it is always given.
        repository: `URL@COMMIT` of code that is no package; it is cloned into the environment, which it names, and given
            to the program as --source.
    """

    script: str
    needs: tuple[str, ...]
    without: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    repository: str = ""

    def folder(self, home: Path) -> Path:
        """Return the folder of the environment below `home`."""
        named = self.repository.rpartition("/")[2] or self.needs[-1]
        return home / named.replace("==", "-").replace("@", "-")

    def environment(self, home: Path, interpreter: str) -> Path:
        """Return the python of the environment below `home`, making it if it is missing or holds other versions."""
        folder = self.folder(home)
        python, stamp = folder / "bin" / "python", folder / "installed.txt"
        wanted = "\n".join(self.needs)
        if not stamp.exists() or stamp.read_text() != wanted:
            print(f"making {folder}", file=sys.stderr, flush=True)
            subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
            for count in range(1, len(self.needs) + 1):
                subprocess.run([python, "-m", "pip", "install", "-q", *self.needs[:count]], check=True)
            if self.without:
                subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", *self.without], check=True)
            if self.repository:
                url, _, commit = self.repository.partition("@")
                subprocess.run(["git", "clone", "-q", "--no-checkout", url, folder / SOURCE], check=True)
                subprocess.run(["git", "-C", folder / SOURCE, "checkout", "-q", commit], check=True)
            stamp.write_text(wanted)
        return python

    def command(self, home: Path, interpreter: str) -> list[Any]:
        """Return the command line that starts the program, ready for its own arguments."""
        # -I: neither this folder, where files bear the names of the packages they run, nor ours is on the path.
        source = ["--source", self.folder(home) / SOURCE] if self.repository else []
        return [self.environment(home, interpreter), "-I", HERE / self.script, *self.more, *source]


class Unfinished(RuntimeError):
    """A program that ended without its result; the message is one line that says why."""


def timed(command: Sequence[Any], env: Mapping[str, str], minutes: float) -> tuple[str, dict[str, float]]:
    """Run a command; return what it printed, its CPU seconds, children included, and its wall seconds.

    Raises:
        Unfinished: it failed, or it, or one of its children, took more than so many CPU minutes.
    """
    cap = round(60 * minutes)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cap, cap + 30))

    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True, preexec_fn=limited)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode == -signal.SIGXCPU:
        raise Unfinished(f"not done after {minutes:g} CPU minutes")
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr, flush=True)
        said = [line.strip() for line in done.stderr.splitlines() if line.strip(" │╰╯─")]
        raise Unfinished(f"failed: {said[-1][:120]}" if said else f"failed with exit code {done.returncode}")
    return done.stdout, {"cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "wall": wall}
