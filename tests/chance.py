"""Chance in tests: each test draws from a stream of its own, so that what passes on one machine passes on the next.

Noise has no seed in the product, and gets none here: what is replaced is where entropy comes from. The streams are fixed,
so a bound that noise breaks once in a hundred runs would never be seen to break. `CHANCE=fresh`, which `make nightly` sets,
runs all tests on the entropy of the operating system.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import settings

FRESH = os.environ.get("CHANCE") == "fresh"
"""Whether every run is to be another one."""

_PCG64, _default_rng, _connect = np.random.PCG64, np.random.default_rng, duckdb.connect
_stream: np.random.Generator = np.random.Generator(_PCG64(0))


def begin(name: str) -> None:
    """Begin the stream of a test or a fixture, of which its name alone decides."""
    global _stream
    _stream = np.random.Generator(_PCG64(list(hashlib.sha256(name.encode()).digest())))
    random.seed(name)
    np.random.seed(_number())
    if (torch := sys.modules.get("torch")) and hasattr(torch, "Generator"):
        torch.manual_seed(_number())
        _seed_generators(torch)


@contextmanager
def apart(name: str) -> Iterator[None]:
    """Draw from a stream of another name, and go on with the present one after it."""
    global _stream
    before, of_python, of_numpy = _stream, random.getstate(), np.random.get_state()
    begin(name)
    yield
    _stream = before
    random.setstate(of_python)
    np.random.set_state(of_numpy)


def install(patch: pytest.MonkeyPatch) -> None:
    """Let the product and the tests draw from the streams."""
    from dp_synth_pipeline.privacy import mechanisms, noise

    patch.setattr(noise, "os", SimpleNamespace(urandom=lambda size: _stream.bytes(size)))
    patch.setattr(np.random, "default_rng", _generator)
    release = mechanisms._count_release
    patch.setattr(mechanisms, "_count_release", lambda scale: _CountRelease(scale, release(scale).map))
    patch.setattr(duckdb, "connect", _connected)
    os.register_at_fork(after_in_child=_forked)
    settings.register_profile("repeated", settings.get_profile("house"), derandomize=True)
    settings.load_profile("repeated")


def _forked() -> None:
    """Let a process draw from the system, which else would draw what its parent draws."""
    global _stream
    _stream = np.random.Generator(_PCG64())


def _number() -> int:
    return int(_stream.integers(2**31))


def _generator(seed: Any = None) -> np.random.Generator:
    return _default_rng(_stream.integers(2**63, size=2).tolist() if seed is None else seed)


def _connected(*args: Any, **kwargs: Any) -> duckdb.DuckDBPyConnection:
    """Open a database whose `random()` follows the stream."""
    connection = _connect(*args, **kwargs)
    connection.execute("SELECT setseed(?)", [float(_stream.random())]).fetchall()
    return connection


class _CountRelease:
    """OpenDP's release of a count, whose two-sided geometric noise is the difference of two geometric numbers here."""

    def __init__(self, scale: float, cost: Callable[[int], float]) -> None:
        self.map, self._stop = cost, -np.expm1(-1 / scale)

    def __call__(self, count: int) -> int:
        return count + int(_stream.geometric(self._stop)) - int(_stream.geometric(self._stop))


def _seed_generators(torch: Any) -> None:
    """Let what torch draws by itself follow the stream, from the first test on that finds torch imported."""
    if torch.Generator.__name__ == "Repeated":
        return

    class Repeated(torch.Generator):
        def seed(self) -> int:
            found = _number()
            self.manual_seed(found)
            return found

    torch.Generator = Repeated
