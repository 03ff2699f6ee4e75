"""Runs `dp-synth` in forked children of one warm process, and stops or kills them at each durable point they come to.

A durable point is what a power cut may fall before or after: a rename, a folder that is made to claim something, a commit
of the ledger, a lock or a slot that is taken or given back. None is listed here: Python's own functions are wrapped, and
its audit events say whether any went past the wrappers.

`Runner` starts this file as a process of its own, which imports everything once and has no thread to lose in a fork.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]

LIGHT = {
    "model.dpsgd.descent.CHUNK": 10,
    "synthesis.mechanisms.accuracy.DRAWS": 1_000,
    "validation.learners.FEWEST_ROWS": 1 << 30,
}
"""Constants that decide how long a release computes, and not which durable points it comes to: the same ones, sooner."""


def without_ids(text: str) -> str:
    """Return a text with a star for each id of a run or a release."""
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12,64}", "*", text)


@dataclass(frozen=True)
class Done:
    """What a command came to.

    Attributes:
        code: its exit code; negative for a signal; None if it had to be killed at its limit.
        text: all that it printed, on one line, without frames of tables.
        missed: durable points that the wrappers did not see.
    """

    code: int | None
    text: str
    seconds: float
    missed: tuple[str, ...] = ()


class Runner:
    """A warm process that runs commands in a folder, each in a fork of its own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        kept = {k: v for k, v in os.environ.items() if not k.startswith("DP_SYNTH")}
        kept |= {"OMP_NUM_THREADS": "1", "DAGSTER_DISABLE_TELEMETRY": "yes", "COLUMNS": "400", "NO_COLOR": "1"}
        kept |= {"DAGSTER_HOME": str(folder / "home"), "PYTHONPATH": str(REPOSITORY)}
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=kept | environment,
            text=True,
        )

    def close(self) -> None:
        """End the warm process."""
        self._server.kill()
        self._server.communicate()

    def run(
        self,
        *argv: str,
        limit: float = 120,
        kill: str = "",
        stop: Callable[[str], None] | None = None,
        interrupt: str = "",
        environment: dict[str, str] | None = None,
    ) -> Done:
        """Run `dp-synth` with these arguments.

        Args:
            limit: seconds after which it is killed, and called hung.
            kill: the point at which it kills itself (SIGKILL).
            stop: called with each point's name while the whole process stands still (SIGSTOP) there.
            interrupt: send SIGINT once something that this pattern matches has been printed.
            environment: added to the warm process's own.
        """
        how = {"mode": "kill" if kill else "stop" if stop else "", "kill": kill, "interrupt": interrupt}
        self._say({"argv": ["dp-synth", *argv], "limit": limit, "environment": environment or {}, **how})
        while "point" in (heard := self._hear()):
            assert stop is not None
            stop(heard["point"])
            self._say({})
        return Done(heard["code"], heard["text"], heard["seconds"], tuple(heard["missed"]))

    def ledger(self, environment: dict[str, str] | None = None) -> dict[str, Any]:
        """Return what each account was given, what is spent of it, and its releases; the ledger is verified first.

        Raises:
            AssertionError: if it does not verify.
        """
        self._say({"question": "ledger", "environment": environment or {}})
        heard = self._hear()
        if "error" in heard:
            raise AssertionError(heard["error"])
        return heard["answer"]

    def _say(self, what: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(what) + "\n")
        self._server.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise AssertionError(f"the warm process ended with {self._server.wait()}")
        return json.loads(line)


# What follows runs in the warm process and its forks.


def lighten() -> None:
    """Let a release take seconds rather than tens of them."""
    from dp_synth_pipeline.model.marginals import raking
    from tests import once
    from tests.light import lighten as compute_less

    for name, value in LIGHT.items():
        module, _, constant = name.rpartition(".")
        found = importlib.import_module(f"dp_synth_pipeline.{module}")
        assert hasattr(found, constant), f"there is no {name}"
        setattr(found, constant, value)
    compute_less(dict.__setitem__)
    raking.rake.__kwdefaults__["steps"] = 5
    _keep_engines()
    once.read_migrations_once(setattr)
    once.compile_templates_once(setattr)


def _keep_engines() -> None:
    """Let Dagster compile each statement once a run: it makes an engine for every event. None keeps a connection."""
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage

    for module in (sqlite_event_log, sqlite_run_storage):
        engines: dict[str, Any] = {}

        def once(url: str, engines: dict[str, Any] = engines, make: Any = module.create_engine, **options: Any) -> Any:
            if url not in engines:
                engines[url] = make(url, **options)
            return engines[url]

        module.create_engine = once


def _compute_beforehand() -> None:
    """Compute what is the same in all forks, so that none computes it anew: migrations, templates, the noise's stairs."""
    from alembic.script import ScriptDirectory
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from great_expectations.render.view.view import DefaultJinjaPageView

    from dp_synth_pipeline.privacy import noise
    from dp_synth_pipeline.reporting import templates

    noise.rounded_gaussian(1.0, 1)
    for environment in (templates._environment(), DefaultJinjaPageView().env):
        for name in environment.list_templates(extensions=["j2"]):
            environment.get_template(name)
    config = sqlite_event_log.get_alembic_config(sqlite_event_log.__file__)
    list(ScriptDirectory.from_config(config).walk_revisions())


class Points:
    """Wraps what is durable in this process, and calls `come` before and after each with a name of its own."""

    def __init__(self, root: Path, come: Callable[[str], None]) -> None:
        self.root = str(root)
        self.process = os.getpid()
        self.come = come
        self.seen: Counter[str] = Counter()
        self.wrapped: Counter[str] = Counter()
        self.audited: Counter[str] = Counter()

    def install(self) -> None:
        """Wrap what exists; a function that Python audits and that is called another way is told by `missed`."""
        import fcntl

        for name in ("replace", "rename", "link"):
            self._wrap(os, name, "os.link" if name == "link" else "os.rename", lambda a: a[1])
        self._wrap(os, "mkdir", "os.mkdir", lambda a: a[0], skip=os.path.exists)
        for name in ("flock", "lockf"):
            self._wrap(fcntl, name, f"fcntl.{name}", lambda a: _file_of(a[0]), of=_lock_word)
        sys.addaudithook(self._audit)
        self._wrap_commits()
        self._wrap_slots()

    def missed(self) -> list[str]:
        """Return what Python audited more often than the wrappers saw it."""
        return [f"{what}: {n - self.wrapped[what]}" for what, n in self.audited.items() if n > self.wrapped[what]]

    def _point(self, what: str, when: str) -> None:
        if os.getpid() == self.process:
            self.seen[f"{what} {when}"] += 1
            self.come(f"{what} #{self.seen[f'{what} {when}']} {when}")

    def _inside(self, path: Any) -> str:
        """Return a path's name relative to the root, ids left out; empty if it is another's business."""
        full = os.path.abspath(os.fsdecode(path)) if isinstance(path, (str, bytes, os.PathLike)) else ""
        if not full.startswith(f"{self.root}/"):
            return ""
        name = without_ids(full[len(self.root) + 1 :])
        return "" if re.match(r"home/(history|storage|schedules|\.)", name) else name

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.rename", "os.link"):
            path = arguments[1]
        elif event == "os.mkdir":
            path = arguments[0]
        elif event in ("fcntl.flock", "fcntl.lockf"):
            path = _file_of(arguments[0])
        else:
            return
        if os.getpid() == self.process and self._inside(path):
            self.audited[event] += 1

    def _wrap(
        self,
        module: Any,
        name: str,
        event: str,
        path_of: Callable[[tuple[Any, ...]], Any],
        *,
        skip: Callable[[Any], bool] = lambda path: False,
        of: Callable[[tuple[Any, ...]], str] | None = None,
    ) -> None:
        original = getattr(module, name)

        def wrapper(*arguments: Any, **options: Any) -> Any:
            inside = self._inside(path_of(arguments)) if len(arguments) else ""
            if not inside:
                return original(*arguments, **options)
            self.wrapped[event] += 1
            if skip(path_of(arguments)):
                return original(*arguments, **options)
            what = f"{of(arguments) if of else event.split('.')[1]} {inside}"
            self._point(what, "before")
            result = original(*arguments, **options)
            self._point(what, "after")
            return result

        setattr(module, name, wrapper)

    def _wrap_commits(self) -> None:
        import sqlalchemy as sa

        from dp_synth_pipeline.ledger.store import Store

        original = Store.write
        last = sa.text("select action from dp_journal order by seq desc limit 1")

        @contextlib.contextmanager
        def write(store: Store) -> Iterator[sa.Connection]:
            with original(store) as conn:
                yield conn
                what = f"commit {conn.execute(last).scalar()}"
                self._point(what, "before")
            self._point(what, "after")

        Store.write = write  # type: ignore[method-assign]

    def _wrap_slots(self) -> None:
        from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage

        for name in ("claim_concurrency_slot", "free_concurrency_slot_for_step", "free_concurrency_slots_for_run"):
            original = getattr(SqlEventLogStorage, name)

            def wrapper(*arguments: Any, original: Any = original, name: str = name, **options: Any) -> Any:
                self._point(name, "before")
                result = original(*arguments, **options)
                self._point(name, "after")
                return result

            setattr(SqlEventLogStorage, name, wrapper)


def _file_of(handle: Any) -> str:
    number = handle if isinstance(handle, int) else handle.fileno()
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""


def _lock_word(arguments: tuple[Any, ...]) -> str:
    import fcntl

    return "unlock" if arguments[1] & fcntl.LOCK_UN else "lock"


def _in_fork(work: Callable[[int], int], printed: Path) -> tuple[int, int]:
    """Fork; the child prints to a file, tells through a pipe and exits with what `work` returns. Return pid and pipe."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    code = 77
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        handle = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        code = work(writer)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _command(request: dict[str, Any], tell: int) -> int:
    """Run the command line in this fork, with its points wrapped."""
    os.environ.update(request["environment"])
    from dp_synth_pipeline import cli

    def come(point: str) -> None:
        if request["mode"] == "kill" and point == request["kill"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if request["mode"] == "stop":
            os.write(tell, (json.dumps({"point": point}) + "\n").encode())
            os.kill(os.getpid(), signal.SIGSTOP)

    gc.disable()  # it ends soon
    points = Points(Path.cwd(), come)
    if request["mode"]:
        points.install()
    sys.argv, code = request["argv"], 0
    try:
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if request.get("modules"):
        os.write(tell, (json.dumps({"modules": list(sys.modules)}) + "\n").encode())
    os.write(tell, (json.dumps({"missed": points.missed()}) + "\n").encode())
    return code


def _ledger(request: dict[str, Any], tell: int) -> int:
    """Tell what the ledger holds, after verifying it."""
    os.environ.update(request["environment"])
    from dp_synth_pipeline.ledger import Ledger
    from dp_synth_pipeline.synthesis.store import ledger_url

    book = Ledger.open(ledger_url())
    book.verify()
    answer = {}
    for account in book.accounts():
        balance = book.balance(account.name)
        releases = [{"id": r.id, "state": r.state, "released": r.released} for r in book.releases(account.name)]
        answer[account.name] = {
            "limit": account.epsilon,
            "spent": balance.epsilon_spent,
            "left": balance.epsilon_left,
            "releases": releases,
        }
    os.write(tell, (json.dumps({"answer": answer}) + "\n").encode())
    return 0


class _Lines:
    """Lines that a fork tells through its pipe."""

    def __init__(self, reader: int) -> None:
        os.set_blocking(reader, False)
        self.reader, self.rest = reader, b""

    def new(self) -> list[dict[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.reader, 65536):
                self.rest += chunk
        *lines, self.rest = self.rest.split(b"\n")
        return [json.loads(line) for line in lines]


def _serve_command(request: dict[str, Any], answer: Callable[[dict[str, Any]], None], folder: Path) -> list[str]:
    printed = folder.with_name(f"{folder.name}.printed")
    began = time.monotonic()
    pid, reader = _in_fork(lambda tell: _command(request, tell), printed)
    lines, modules, missed, code = _Lines(reader), [], [], None
    waiting = request["interrupt"]
    while True:
        done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        for told in lines.new():
            modules, missed = told.get("modules", modules), told.get("missed", missed)
            if "point" in told:
                while not (done and os.WIFSTOPPED(status)):
                    done, status = os.waitpid(pid, os.WUNTRACED)
                stood = time.monotonic()
                answer({"point": told["point"]})
                sys.stdin.readline()
                began += time.monotonic() - stood
                done = 0
                os.kill(pid, signal.SIGCONT)
        if done and not os.WIFSTOPPED(status):
            code = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() - began > request["limit"]:
            break
        if waiting and re.search(waiting, _read(printed)):
            waiting = ""
            os.kill(pid, signal.SIGINT)
        time.sleep(0.003)
    seconds = time.monotonic() - began
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if code is None:
        os.waitpid(pid, 0)
    os.close(reader)
    answer({"code": code, "text": _read(printed), "seconds": seconds, "missed": missed})
    return modules


def _read(printed: Path) -> str:
    text = printed.read_text(errors="replace") if printed.exists() else ""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return " ".join(re.sub(r"[\u2500-\u257f]", " ", text).split())


def _serve() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder = Path.cwd()

    def answer(what: dict[str, Any]) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    import torch

    torch.set_num_threads(1)
    lighten()
    learnt = False
    for line in sys.stdin:
        request = json.loads(line)
        if "question" in request:
            pid, reader = _in_fork(lambda tell: _ledger(request, tell), folder.with_name("question"))  # noqa: B023
            os.waitpid(pid, 0)
            lines = _Lines(reader).new()
            os.close(reader)
            answer(lines[-1] if lines else {"error": _read(folder.with_name("question"))})
            continue
        request["modules"] = not learnt
        for name in _serve_command(request, answer, folder):
            learnt = True
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        if learnt and request["modules"]:
            _compute_beforehand()
        gc.freeze()


if __name__ == "__main__":
    _serve()
