"""Errors of others: their text is withheld, and shown on a person's terminal if asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest

from dp_synth_pipeline.orchestration.failures import reported, withheld

CODE = """
import fcntl, os, sys, termios
fcntl.ioctl(int(sys.argv[1]), termios.TIOCSCTTY, 0)
from dp_synth_pipeline.errors import DpSynthError, UnexpectedFailure
from dp_synth_pipeline.orchestration.failures import withheld
try:
    with withheld("train"):
        {what}
except DpSynthError as error:
    print(error)
"""

OTHERS = 'raise ValueError("canary 4711")'
OURS = 'raise UnexpectedFailure("store", ValueError()) from ValueError("canary 4711")'


def shown(terminal: int, seconds: float = 0.5) -> str:
    time.sleep(seconds)
    os.set_blocking(terminal, False)
    try:
        return os.read(terminal, 1 << 16).decode()
    except OSError:  # nothing was written
        return ""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("what", [OTHERS, OURS])
def test_a_withheld_traceback_is_shown_on_the_terminal_alone_and_on_demand(
    tmp_path: Path, debug: str, what: str
) -> None:
    terminal, side = os.openpty()
    with (tmp_path / "out").open("w+") as out:  # Dagster captures both streams of a step in a file
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(what=what), str(side)],
            env={**os.environ, "DP_SYNTH_DEBUG": debug},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=[side],
            start_new_session=True,
            check=False,
        )
        out.seek(0)
        logged = out.read()
    assert done.returncode == 0, logged
    assert "stopped on an unexpected ValueError" in logged
    assert "canary" not in logged
    on_terminal = shown(terminal)
    os.close(side)
    os.close(terminal)
    assert ("canary 4711" in on_terminal) == bool(debug)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("within", "expected"), [(withheld, KeyboardInterrupt), (reported, dg.DagsterExecutionInterruptedError)]
)
def test_ctrl_c_while_duckdb_works_is_an_interruption_and_no_failure(
    within: Any, expected: type[BaseException]
) -> None:
    conn = duckdb.connect()
    timers = [threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)), threading.Timer(3, conn.interrupt)]
    for timer in timers:
        timer.start()
    try:
        with pytest.raises(expected), within("ingested"):
            conn.execute("SELECT sum(a.range * b.range) FROM range(300000) a, range(300000) b").fetchall()
    finally:
        for timer in timers:
            timer.cancel()
