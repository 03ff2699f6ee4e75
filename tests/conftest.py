"""What every test may use: hypothesis without deadlines or files, Ctrl-C as in a terminal, and torch on one thread."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import chance, once

settings.register_profile("house", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

FOLDERS = ("adversarial", "architecture", "docs", "golden", "gpu", "integration", "property", "unit")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in what a shell runs in the background; programs inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Fix what tests draw, before any module of theirs is read, unless each run is to be another one."""
    if not chance.FRESH:
        patch = pytest.MonkeyPatch()
        chance.install(patch)
        config.add_cleanup(patch.undo)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[None]:
    """Give what several tests share a stream of its own, whichever of them comes first."""
    if chance.FRESH or fixturedef.scope == "function":
        return (yield)
    with chance.apart(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param', '')}"):
        return (yield)


@pytest.fixture(autouse=True)
def own_chance(request: pytest.FixtureRequest) -> None:
    """Let a test draw what it drew before."""
    if not chance.FRESH:
        chance.begin(request.node.nodeid)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by the folder that it lies in, for `-m unit` and the like."""
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in FOLDERS:
            item.add_marker(folder)


os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts compiles the package anew
sys.dont_write_bytecode = False


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests remember of ledgers on a server out of the home of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("home")))
        for name in ("DAGSTER_HOME", "DP_SYNTH_HOME", "DP_SYNTH_LEDGER"):  # `make test` names the project's own
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def computed_once() -> Iterator[None]:
    """Compute once what is the same in hundreds of tests (see `tests.once`)."""
    with pytest.MonkeyPatch.context() as patch:
        once.read_migrations_once(patch.setattr)
        once.compile_templates_once(patch.setattr)
        yield


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch use one thread: what tests compute is small, and threads that wait for each other cost more."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
