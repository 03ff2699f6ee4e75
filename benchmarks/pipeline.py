"""One release in process, without Dagster and without a ledger: the same calls in the same order as the assets make.

A release made here spends exactly what `dp-synth synthesize` spends: its noise comes from the same plans. What is left
out is what costs no epsilon and changes no row: reservations, checks, reports, publication.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from dp_synth_pipeline.model import generation, initialization, marginals, raking, training
from dp_synth_pipeline.model.network import AutoregressiveNetwork
from dp_synth_pipeline.model.plan import capacity
from dp_synth_pipeline.model.spec import GeneratorSpec, Method, Start
from dp_synth_pipeline.orchestration import planning
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.privacy import accountant, calibration
from dp_synth_pipeline.privacy.budget import Budget
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.targets import sink

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
class Release:
    """What one release came to.

    Attributes:
        path: the synthetic table.
        rows: rows drawn.
        steps: what each step took, in order.
        events: what was spent.
        generator: what rows were drawn from; its network can start the next release.
        facts: public facts of the plan.
    """

    path: Path
    rows: int = 0
    steps: dict[str, Step] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    generator: generation.Generator | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def epsilon(self) -> float:
        """The epsilon of all that ran, by privacy loss distributions, at the delta that thresholds leave."""
        return accountant.epsilon(self.events, DELTA)

    @property
    def cpu(self) -> float:
        """CPU seconds of all steps."""
        return sum(s.cpu for s in self.steps.values())

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure one step."""
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


def run(
    settings: TableSettings,
    folder: Path,
    out: Path,
    *,
    previous: AutoregressiveNetwork | None = None,
    public: str | None = None,
) -> Release:
    """Make one release of `settings.source` and write it to `out`, .csv or .parquet.

    Args:
        folder: an empty folder for the snapshot and the codes: real rows.
        previous: with `start: warm_start`, the network of an earlier release.
        public: with `start: public`, a table declared public.
    """
    made, spec = Release(out), settings.training.spec()
    budget, asked = Budget(settings.epsilon, DELTA), planning.ask(settings, DELTA)
    with made.step("snapshot"):
        taken = ingestion.snapshot(
            source.parse(settings.source), folder / "snapshot.parquet", declared=settings.columns
        )
    with made.step("count"):
        population = measure.measure_population(taken.units, planning.plan_profile(settings, asked, taken.schema))
        plan = planning.plan_profile(settings, asked, taken.schema, population=population)
        made.events += [*plan.count_events(), *plan.histogram_events(taken.schema)]
    with made.step("profile"):
        profile = measure.measure(taken.path, taken.schema, plan, population)
    with made.step("codec"):
        codec = TableCodec(taken.schema, profile)
        whole = nulls.complete(taken.path, taken.schema, profile, folder / "completed.parquet")
        codec.encode_file(whole, folder / "codes.npy")
        codes = np.load(folder / "codes.npy", mmap_mode="r")
    known: np.ndarray | None = None
    if public is not None:
        known = _encoded(public, taken.schema, profile, codec, folder)
    if spec.hidden is None:
        noise, columns = calibration.gaussian_noise(budget.epsilon, DELTA), len(codec.cardinalities)
        spec = spec.with_(hidden=capacity(population, noise, columns, spec.embedding))
    measured = _measure(made, codes, codec, spec, budget, profile)
    proposal = _learn(made, codes, codec, spec, budget, population, measured, previous, known)
    tilt = None
    if measured is not None and spec.rake:
        with made.step("rake"):
            tilt = raking.rake(generation.propose(proposal, raking.draws(measured)), measured)
    made.generator = generation.Generator(proposal, tilt)
    made.rows = settings.rows or profile.rows
    with made.step("draw"):
        drawn = generation.draw(made.generator, made.rows, forbidden=codec.forbidden)
        _write(codec, taken.schema.arrow_schema(), drawn, out)
    made.facts |= {"codes": sum(codec.cardinalities), "weights": made.generator.weights}
    return made


def _encoded(uri: str, schema: Any, profile: Any, codec: TableCodec, folder: Path) -> np.ndarray:
    found = ingestion.snapshot(source.parse(uri), folder / "public.parquet")
    whole = nulls.complete(found.path, schema, profile, folder / "public_completed.parquet")
    codec.encode_file(whole, folder / "public.npy")
    return np.load(folder / "public.npy")


def _measure(
    made: Release, codes: np.ndarray, codec: TableCodec, spec: GeneratorSpec, budget: Budget, profile: Any
) -> marginals.Marginals | None:
    if not Method(spec.method).measures or len(codec.cardinalities) < 2:
        return None
    with made.step("marginals"):
        room = planning.Room(tuple(made.events), budget)
        plan = planning.marginals(room, spec, codec.cardinalities, profile.population, profile.rows, 1)
        made.events.append(plan.event)
        made.facts |= {"pairs": plan.chosen, "noise_per_cell": plan.scale}
        return marginals.measure(codes, codec.cardinalities, codec.marginals(), plan, rows=profile.rows)


def _learn(
    made: Release,
    codes: np.ndarray,
    codec: TableCodec,
    spec: GeneratorSpec,
    budget: Budget,
    population: int,
    measured: marginals.Marginals | None,
    previous: AutoregressiveNetwork | None,
    public: np.ndarray | None,
) -> AutoregressiveNetwork:
    trains = Method(spec.method).trains
    with made.step("begin"):
        spec = spec if trains else spec.with_(start=Start.MARGINALS)
        network = initialization.begin(
            codec.cardinalities, spec, codec.marginals(), measured=measured, previous=previous, public=public
        )
    if not trains:
        return network
    with made.step("calibrate"):
        plan, looks = planning.training(planning.Room(tuple(made.events), budget), spec, population)
        made.events += [] if looks is None else [looks.event]
        made.facts |= {"noise_multiplier": plan.noise_multiplier, "steps": plan.steps, "batch": plan.expected_batch}
    with made.step("train"):
        trained = training.train(codes, codec.cardinalities, plan, spec, network=network, looks=looks)
    made.events.append(trained.event)
    made.facts["done"] = trained.event.steps
    return trained.network


def _write(codec: TableCodec, schema: pa.Schema, drawn: Iterator[np.ndarray], out: Path) -> None:
    if out.suffix == ".parquet":
        sink.write_parquet(codec.decode_stream(drawn), schema, out)
        return
    with pc.CSVWriter(out, schema) as file:
        for batch in codec.decode_stream(drawn):
            file.write_batch(batch)
