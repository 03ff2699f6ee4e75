"""One release in process, stage by stage as the asset graph runs it, with what each stage took.

It is the very release that `dp-synth synthesize` makes, with a ledger and a store of its own. What is left out is what
costs no epsilon and changes no row: checks, reports, publication.
"""

from __future__ import annotations

import math
import os
import resource
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.synthesis import stages
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.targets import sink

DELTA = 1e-5
"""Of every benchmark."""


@dataclass(frozen=True)
class Step:
    """What one step took.

    Attributes:
        cpu: seconds of all threads.
        wall: seconds that passed.
        peak: most memory held at once during the step, in MiB; -1 where the system does not tell.
    """

    cpu: float
    wall: float
    peak: float


@dataclass
class Made:
    """What one release came to.

    Attributes:
        path: the synthetic table.
        rows: rows drawn.
        steps: what each stage took, in order.
        epsilon: of all that ran, by privacy loss distributions, at the delta that thresholds leave; infinite of a table that
            was declared public.
        facts: public facts of the stages.
    """

    path: Path
    rows: int = 0
    steps: dict[str, Step] = field(default_factory=dict)
    epsilon: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def cpu(self) -> float:
        """CPU seconds of all stages."""
        return sum(s.cpu for s in self.steps.values())

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure one stage."""
        _forget_peak()
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.steps[name] = Step(time.process_time() - cpu, time.perf_counter() - wall, _peak())


def _forget_peak() -> None:
    """Let Linux count the peak memory anew."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak() -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if os.name == "posix" else -1.0
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def run(settings: ReleaseSettings, folder: Path, out: Path, releases: int = 10) -> Made:
    """Make one release of `settings.source` and write it to `out`, .csv or .parquet.

    Args:
        folder: for the ledger, the snapshot and the codes: real rows. A second release of a table in one folder may start
            from the first one's network, by `start: warm_start`.
        releases: how many of them the account in `folder` can pay.
    """
    ledger, store, made = Ledger.open(str(folder / "ledger.db")), Store(folder / "store"), Made(out)
    private = settings.privacy == "dp"
    if private:
        _open_account(settings, ledger, releases)
    run_id = uuid.uuid4().hex
    release = Release.reserve(settings, ledger, store, key=run_id, run_id=run_id)
    for stage in stages.of_release(release.settings):
        with made.step(stage.name):
            made.facts |= release.run(stage)
    made.epsilon = accountant.epsilon(release.spent, DELTA) if private else math.inf
    made.rows = made.facts.pop("rows")
    sink.publish(made.facts.pop("path"), str(out))
    generator, _ = artifact.load(release.state.path("generator"))
    made.facts |= {"codes": sum(release.codec.cardinalities), "weights": generator.weights}
    return made


def _open_account(settings: ReleaseSettings, ledger: Ledger, releases: int) -> None:
    account, epsilon = settings.charge
    if account not in {a.name for a in ledger.accounts()}:
        # Under a declared plan, what a release costs is its epsilon and delta alone.
        ledger.open_account(account, epsilon=releases * epsilon, delta=releases * DELTA, rule="plan", why="benchmark")
