"""What one training works on, and what it calls while it runs; without torch, so that anybody can say it."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dp_synth_pipeline.model.dpsgd.plan import LossQueriesPlan, TrainingPlan
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec


@dataclass(frozen=True)
class Training:
    """The rows that one training reads, how it learns from them, and where it runs. All but the rows is public.

    Attributes:
        codes: int (rows, columns), each below its column's cardinality; may be memory-mapped.
        plan: what was charged for; it is kept to the letter.
        spec: how the network learns.
        units: int64 (rows,) ascending unit numbers; None when each row is a unit.
        queries: charged queries of the loss that may end training early, or one of what training ends with.
        resume_from: steps that an earlier attempt started; they are charged already and are not run again. If they are all
            that were planned, the last checkpoint's network is what was learnt.
        checkpoints: folder for the state from which a killed training resumes; holds noisy weights, never a row.
        device: of torch; None for a GPU if there is one.
        workers: processes that share the units, a GPU each if there are GPUs. Under torchrun, its processes are used, and
            each must make the call; hooks are called, and checkpoints kept, by rank 0 alone.
    """

    codes: np.ndarray
    plan: TrainingPlan
    spec: TrainingSpec
    units: np.ndarray | None = None
    queries: LossQueriesPlan | None = None
    resume_from: int = 0
    checkpoints: Path | None = None
    device: str | None = None
    workers: int = 1

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to another process: of a memory-mapped file its name, so that nothing is copied."""
        units = None if self.units is None else SharedArray(self.units)
        return self.__dict__ | {"codes": SharedArray(self.codes), "units": units}

    def __setstate__(self, state: dict[str, Any]) -> None:
        units = None if state["units"] is None else state["units"].array
        self.__dict__.update(state | {"codes": state["codes"].array, "units": units})


@dataclass(frozen=True)
class Hooks:
    """What the leading process of a training calls.

    Attributes:
        mark: called *before* a chunk of steps runs, with the number of steps that will then have started. It must make
            that number durable: a crash is charged up to it.
        mark_query: called before each query of the loss, with the number of queries that will then have been made.
        progress: called with steps done and planned; public facts.
    """

    mark: Callable[[int], None] = lambda steps: None
    mark_query: Callable[[int], None] = lambda queries: None
    progress: Callable[[int, int], None] = lambda done, steps: None


@dataclass(frozen=True)
class SharedArray:
    """An array on its way to another process: a memory-mapped file by its name, so that nothing is copied."""

    array: np.ndarray

    def __reduce__(self) -> tuple[Any, ...]:
        whole = isinstance(self.array, np.memmap) and isinstance(self.array.base, mmap.mmap)
        if whole and self.array.flags.c_contiguous and self.array.filename:  # type: ignore[attr-defined]
            found: Any = self.array
            return _opened, (str(found.filename), str(found.dtype), found.shape, found.offset)
        return SharedArray, (np.asarray(self.array),)


def _opened(path: str, dtype: str, shape: tuple[int, ...], offset: int) -> SharedArray:
    return SharedArray(np.memmap(path, dtype, "r", offset, shape))
