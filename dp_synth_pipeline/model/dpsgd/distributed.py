"""Training by several processes: each owns a share of the units; together they take one noisy step at a time.

Worker r of W owns units r, r + W, ... and draws its Poisson sample of them at the plan's rate. Together these are one
Poisson sample of all units. Each adds up its clipped gradients, the first adds the noise of the whole step, and the sums
are added up, exactly, as whole numbers: one mechanism, one plan, one event, and the same epsilon as with one process.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from dp_synth_pipeline.errors import TrainingError

PATIENCE = timedelta(minutes=30)
"""How long workers wait for each other."""

FAREWELL = 60.0
"""Seconds in which a worker that lost its leader, or failed, must have ended."""

FAILED = "a training worker failed; nothing was released. Train with one worker."


@dataclass(frozen=True)
class Team:
    """The processes that train together, and which of them this one is."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process adds noise, makes marks and keeps checkpoints."""
        return self.rank == 0

    def count(self, units: int) -> int:
        """Return how many of `units` units this worker owns."""
        return len(range(self.rank, units, self.size))

    def own(self, chosen: np.ndarray) -> np.ndarray:
        """Turn numbers among this worker's units into numbers among all."""
        return chosen * self.size + self.rank

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Replace `tensor` by its sum over all workers."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def follow(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace tensors by the first worker's."""
        for tensor in tensors if self.size > 1 else ():
            dist.broadcast(tensor.data, 0)

    def wait(self) -> None:
        """Go on when all workers have come here."""
        if self.size > 1:
            dist.barrier()

    def check(self, tensors: Iterable[torch.Tensor]) -> None:
        """Refuse tensors that are not the same on all workers."""
        for tensor in tensors if self.size > 1 else ():
            most = tensor.detach().clone()
            least = most.clone()
            dist.all_reduce(most, dist.ReduceOp.MAX)
            dist.all_reduce(least, dist.ReduceOp.MIN)
            if not torch.equal(most, least):
                raise TrainingError("the workers ended with different weights; nothing was released.")


def current() -> Team:
    """Return the team that `torch.distributed` was set up for already (by torchrun, say), or this process alone."""
    if dist.is_available() and dist.is_initialized():
        return Team(dist.get_rank(), dist.get_world_size())
    return Team()


@dataclass(frozen=True)
class Meeting:
    """Where workers meet, and what each of them then does.

    Attributes:
        size: how many there are.
        backend: of `torch.distributed`: 'nccl' on GPUs, 'gloo' on CPUs.
        where: URI of the file through which they find each other.
        follow: what a worker that does not lead runs, with `job`.
    """

    size: int
    backend: str
    where: str
    follow: Callable[[Any], None]
    job: Any

    def join(self, rank: int) -> None:
        """Come to the meeting as worker `rank`, and wait for the others."""
        dist.init_process_group(self.backend, init_method=self.where, rank=rank, world_size=self.size, timeout=PATIENCE)


@contextmanager
def team(workers: int, follow: Callable[[Any], None], job: Any, *, device: torch.device) -> Iterator[Team]:
    """Start `workers` - 1 processes that run `follow(job)`, and yield the team that this process leads.

    On GPUs worker r has GPU r and they talk by NCCL; on CPUs by Gloo. Ends all of them on the way out.

    Raises:
        TrainingError: if there are fewer GPUs than workers, or a worker failed.
    """
    if workers == 1 or current().size > 1:
        yield current()
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    if backend == "nccl" and torch.cuda.device_count() < workers:
        raise TrainingError(f"there are {torch.cuda.device_count()} GPUs for {workers} workers; ask for fewer workers.")
    with tempfile.TemporaryDirectory() as folder:
        meeting = Meeting(workers, backend, (Path(folder) / "rendezvous").as_uri(), follow, job)
        with _followers(meeting):
            yield Team(0, workers)


@contextmanager
def _followers(meeting: Meeting) -> Iterator[None]:
    """Start all workers but the first, meet them, and end them on the way out, whatever happened."""
    start = mp.get_context("spawn")
    ends = [start.Pipe() for _ in range(1, meeting.size)]
    others = [
        start.Process(target=_worker, args=(rank, meeting, theirs), daemon=True)
        for rank, (_, theirs) in enumerate(ends, start=1)
    ]
    try:
        for process, (ours, theirs) in zip(others, ends, strict=True):
            process.start()
            theirs.close()
            _await(ours)
        meeting.join(0)
        yield
        _let_go(ends)
        for process in others:
            process.join(PATIENCE.total_seconds())
    except RuntimeError:
        _let_go(ends)
        for process in others:
            process.join(FAREWELL)
        if any(process.exitcode for process in others):
            raise TrainingError(FAILED) from None
        raise
    finally:
        _let_go(ends)
        if dist.is_initialized():
            dist.destroy_process_group()
        for process in others:
            if process.is_alive():
                process.terminate()
            if process.pid is not None:
                process.join()


def _await(ours: Connection) -> None:
    """Go on when a worker has begun; one that died before it did would never come to the meeting."""
    try:
        if ours.poll(PATIENCE.total_seconds()):
            ours.recv()
            return
    except (EOFError, ConnectionError):
        pass
    raise TrainingError(FAILED)


def _let_go(ends: Iterable[tuple[Connection, Connection]]) -> None:
    """Tell all workers that they may leave."""
    for both in ends:
        for end in both:
            end.close()


def _worker(rank: int, meeting: Meeting, leader: Connection) -> None:
    """Run one worker; its failures end it without a word, since messages of libraries quote values.

    It stays until the leader is done or dead: to hang up first could cut off the leader's last sum.
    """
    try:
        leader.send(rank)
        if meeting.backend == "nccl":
            torch.cuda.set_device(rank)
        meeting.join(rank)
        meeting.follow(meeting.job)
        with suppress(EOFError, ConnectionError):
            leader.recv()
        dist.destroy_process_group()
    except BaseException:
        sys.stderr = None
        raise SystemExit(1) from None
