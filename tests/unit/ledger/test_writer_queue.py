from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dp_synth_pipeline.ledger import writer_queue
from tests.unit.ledger.stores import in_processes, processes


def test_turns_do_not_overlap_between_threads_or_processes(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.touch()

    def work() -> None:
        for _ in range(20):
            with writer_queue.turn(tmp_path / "l.db", 30):
                count = len(seen.read_text())
                time.sleep(0.001)
                seen.write_text("x" * (count + 1))

    def threads() -> None:
        both = [threading.Thread(target=work) for _ in range(2)]
        for one in both:
            one.start()
        for one in both:
            one.join()

    assert in_processes(3, threads) == [0] * 3
    assert len(seen.read_text()) == 120


def test_a_turn_ends_with_the_process_that_held_it(tmp_path: Path) -> None:
    def die() -> None:
        with writer_queue.turn(tmp_path / "l.db", 30):
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_processes(1, die) == [-signal.SIGKILL]
    begun = time.monotonic()
    with writer_queue.turn(tmp_path / "l.db", 30):
        assert time.monotonic() - begun < 5


def test_a_turn_that_does_not_come_is_not_waited_for_for_ever_and_not_kept_when_it_comes(tmp_path: Path) -> None:
    path, held = tmp_path / "l.db", processes.Event()

    def hold() -> None:
        with writer_queue.turn(path, 30):
            held.set()
            time.sleep(1.0)

    holder = processes.Process(target=hold)
    holder.start()
    held.wait(10)
    begun = time.monotonic()
    with writer_queue.turn(path, 0.2):
        assert 0.15 < time.monotonic() - begun < 0.9
    holder.join()
    time.sleep(0.1)
    with writer_queue.turn(path, 5):
        assert time.monotonic() - begun < 5


def test_where_there_are_no_file_locks_there_are_no_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_queue, "fcntl", None)
    with writer_queue.turn(tmp_path / "l.db", 1), writer_queue.turn(tmp_path / "l.db", 1):
        assert not list(tmp_path.iterdir())
