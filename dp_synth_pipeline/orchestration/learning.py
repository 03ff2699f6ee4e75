"""What the `generator` asset does between its handle and its release: fit, begin, train or resume, rake."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Entry, Ledger, Release
from dp_synth_pipeline.model.plan import LooksPlan, TrainingPlan, capacity, learning_rate
from dp_synth_pipeline.model.spec import GeneratorSpec, Method, Start
from dp_synth_pipeline.orchestration import deliveries, headline, planning, progress
from dp_synth_pipeline.orchestration.assets.encoded import encoded
from dp_synth_pipeline.orchestration.assets.handles import Refresh, declared_events, started_events
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.restricted import private
from dp_synth_pipeline.orchestration.unprotected import Unprotected
from dp_synth_pipeline.privacy import accountant, calibration
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Event, SubsampledGaussian, from_dict
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.validation.charged import ChargedPlan

if TYPE_CHECKING:
    import numpy as np

    from dp_synth_pipeline.model.generation import Generator
    from dp_synth_pipeline.model.network import AutoregressiveNetwork

TRAINING, LOOKS = "training", "looks"

Report = Callable[..., None]


@dataclass
class Learner(ABC):
    """What learning is with a guarantee and without: a fit to the marginals, a start, training, raking."""

    settings: TableSettings
    refresh: Refresh
    codec: TableCodec
    profile: TableProfile
    audit: Audit | None = field(default=None, init=False)  # what training was seen to do; None if it took no noisy step
    ran: list[Event] = field(default_factory=list, init=False)  # now, and in the trainings that this one resumes

    @cached_property
    def spec(self) -> GeneratorSpec:
        """The network and optimiser settings; a network that nobody sized is sized by the noise and the released count."""
        asked = self.settings.training.spec()
        if asked.hidden:
            return asked
        columns = len(self.codec.cardinalities)
        return asked.with_(hidden=capacity(self.profile.population, self._noise(), columns, asked.embedding))

    @property
    def workers(self) -> int:
        """Processes that train together: one step, one event and one charge, however many they are."""
        compute = self.settings.compute.training if self.settings.compute else None
        return compute.processes if compute else 1

    def learn(self, folder: Path, report: Report) -> tuple[Generator, dict[str, Any]]:
        """Return the generator and the public facts of how it came to be.

        Args:
            folder: where the table's last released generator is, for `start: warm_start`.
            report: called with steps done and planned, and a note.
        """
        from dp_synth_pipeline.model import artifact, generation, initialization, raking

        shares = self.codec.marginals()
        files = self.refresh.files or {}
        measured = artifact.load_marginals(Path(files["marginals"])) if "marginals" in files else None
        trains, facts = Method(self.spec.method).trains, {}
        if measured is None and not trains:
            raise InvalidInput(
                "method: marginals needs two columns to learn; use method: autoregressive for this table."
            )
        public = self._public() if trains and self.spec.start == Start.PUBLIC else None
        previous = self._previous(folder) if trains and self.spec.start == Start.WARM_START else None
        spec = self.spec if trains else self.spec.with_(start=Start.MARGINALS)
        proposal = initialization.begin(
            self.codec.cardinalities, spec, shares, measured=measured, previous=previous, public=public
        )
        if trains:
            proposal, facts = self._train(proposal, report)
        tilt = None
        if measured is not None and self.spec.rake:
            tilt = raking.rake(generation.propose(proposal, raking.draws(measured)), measured)
        return generation.Generator(proposal, tilt), facts

    @abstractmethod
    def begin_figures(self) -> ChargedPlan | None:
        """Put charged figures of accuracy on record, if they are wanted, before training, which then leaves them room."""

    @abstractmethod
    def settle(self, ran: Sequence[dict[str, Any]] | None = None) -> Release | Unprotected:
        """Put on record that what was learnt is released.

        Args:
            ran: what `reported` returned; None if an older version kept what was learnt.
        """

    def reported(self) -> list[dict[str, Any]]:
        """Return the events of all that ran for this release: of counts, as planned; of trainings, the steps that ran."""
        return [*self.refresh.ran, *(event.to_dict() for event in self.ran)]

    @abstractmethod
    def _noise(self) -> float:
        """Return the noise multiplier of one Gaussian mechanism that costs as much as the release; 0 without privacy."""

    @abstractmethod
    def _train(self, network: AutoregressiveNetwork, report: Report) -> tuple[AutoregressiveNetwork, dict[str, Any]]:
        """Return the trained network and the public facts of its training."""

    @abstractmethod
    def _previous(self, folder: Path) -> AutoregressiveNetwork | None:
        """Return the table's last released network, if this release may start from it."""

    @abstractmethod
    def _protected_by(self, digest: str) -> list[str]:
        """Return the accounts that ever read this very content."""

    def _public(self) -> np.ndarray:
        """Return the codes of the table that was declared public: read like the source, but nothing in it is charged."""
        import numpy as np

        uri = self.settings.training.public
        if uri is None:
            raise InvalidInput("start: public needs a table that you declare public: training: {public: FILE}.")
        schema, unit = self.refresh.table_schema(), self.settings.privacy_unit.column
        with TemporaryDirectory() as folder:
            found = ingestion.snapshot(  # the unit's column is left out as there, so that the same rows are known again
                source.parse(uri, self.settings.columns),
                Path(folder) / "public.parquet",
                declared=self.settings.columns,
                nulls=self.settings.nulls,
                unit=PrivacyUnit(unit, max_rows=sys.maxsize) if unit else PrivacyUnit(),
            )
            if accounts := self._protected_by(found.digest):
                raise InvalidInput(
                    f"the table declared public is what account {', '.join(accounts)} protects: to learn from it free "
                    f"would undo that. Name another table under training.public, or use start: marginals."
                )
            if found.schema.names != schema.names:
                raise InvalidInput(f"the public table must have the source's columns: {', '.join(schema.names)}.")
            whole = nulls.complete(found.path, schema, self.profile, Path(folder) / "completed.parquet")
            codes, _ = self.codec.encode_file(whole, Path(folder) / "codes.npy")
            return np.array(codes)


@dataclass
class Learning(Learner):
    """One release's learning; every step that reads rows is in the ledger before it does.

    Attributes:
        attempt: names this execution of the step: its run and its retry number.
    """

    ledger: Ledger
    attempt: str

    @cached_property
    def release(self) -> Release:
        """The release as it stood when learning began."""
        return self.ledger.release(self.refresh.release)

    @cached_property
    def delta(self) -> float:
        """The delta that the release ends with; a use of a plan ends at the plan's, at which its epsilon was priced."""
        if self.release.plan is not None:
            return self.release.delta
        return planning.final_delta(self.settings, planning.Asked.of(self.release), self.profile.population)

    def _noise(self) -> float:
        return calibration.gaussian_noise(self.release.epsilon, self.delta)  # the same in every attempt

    def _protected_by(self, digest: str) -> list[str]:
        return self.ledger.same_source(digest)

    def begin_figures(self) -> ChargedPlan | None:
        """Charge them, unless an earlier attempt did."""
        begun = headline.begin(self.settings, self.ledger, self.release.id, len(self.codec.cardinalities))
        self.ran += () if begun is None else begun.events
        return begun

    def settle(self, ran: Sequence[dict[str, Any]] | None = None) -> Release:
        """Charge what ran, and give back the rest."""
        return self.ledger.settle(
            self.release.id,
            delta=self.delta,
            # A purge forgets the digest; the source is on record since it was read.
            fingerprint=self.ledger.fingerprint(self.refresh.digest) if self.refresh.digest else None,
            ran=None if ran is None else [from_dict(event) for event in ran],
        )

    def _previous(self, folder: Path) -> AutoregressiveNetwork | None:
        releases = self.ledger.releases(self.release.account)
        paid = {r.id for r in releases if r.state == "settled" and r.table == self.release.table}
        return network_of(folder, paid)

    def _train(self, network: AutoregressiveNetwork, report: Report) -> tuple[AutoregressiveNetwork, dict[str, Any]]:
        from dp_synth_pipeline.model import training

        done, plan, looks = self._plan()
        looking = None if looks is None else self.ledger.start(self.release.id, LOOKS, [looks.event])
        before = started_events(self.ledger, self.release)
        entry = self._started(plan, done)
        completed = self.refresh.path("completed")
        codes, units = encoded(completed, self.codec)

        def epsilon(steps: int) -> float:
            ran = [replace(plan, steps=steps - done).event] if steps > done else []
            return accountant.epsilon([*before, *ran], self.delta, self.release.relation)

        with private():
            trained = training.train(
                codes,
                self.codec.cardinalities,
                plan,
                self.spec,
                units=units,
                network=network,
                looks=looks,
                mark=lambda steps: entry and self.ledger.mark(entry.id, steps - done),
                mark_look=lambda count: self._look(looking, count),
                progress=progress.with_epsilon(report, epsilon),
                resume_from=done,
                checkpoints=completed.with_name("checkpoint"),
                workers=self.workers,
            )
        self.audit = trained.audit
        self.ran += () if trained.event is None else (trained.event,)
        if trained.stopped_at is not None:
            why = {"who": f"run {self.release.run_id}", "why": "a charged look at the loss ended training early"}
            for started in (looking, entry):
                if started is not None:
                    self.ledger.settle_at_mark(started.id, **why)
        return trained.network, {
            "noise_multiplier": plan.noise_multiplier,
            "sample_rate": plan.sample_rate,
            "steps": done + (trained.event.steps if trained.event else 0),
            "steps_planned": plan.steps,
            "max_grad_norm": self.spec.max_grad_norm,
            "learning_rate": learning_rate(plan, self.spec),
        }

    def _look(self, looking: Entry | None, count: int) -> None:
        """Make it durable that so many looks were taken, the next one included, and report it."""
        if looking is not None:
            self.ledger.mark(looking.id, count)
            (event,) = looking.events
            assert isinstance(event, SubsampledGaussian)
            self.ran += [replace(event, steps=1)]

    def _started(self, plan: TrainingPlan, done: int) -> Entry | None:
        """Charge the steps that are left; none are if an earlier attempt died between its last step and its end."""
        if done == plan.steps:
            return None
        rest = replace(plan, steps=plan.steps - done)
        return self.ledger.start(
            self.release.id, self._name(done), [rest.event], key=deliveries.entry_key(self.attempt)
        )

    def _name(self, done: int) -> str:
        """Name this training, as no earlier attempt of its release was named."""
        earlier = [e.mechanism for e in self.ledger.entries(release_id=self.release.id)]
        attempts = sum(name.startswith(TRAINING) for name in earlier)
        if attempts == 0:
            return TRAINING
        name = f"{TRAINING}, resumed at {done}"
        return f"{name}, attempt {attempts + 1}" if name in earlier else name

    def _plan(self) -> tuple[int, TrainingPlan, LooksPlan | None]:
        """Return the steps that an earlier attempt started, the plan, and the looks that it may take."""
        if self.release.state not in ("reserved", "started"):
            raise ReleaseStateError(
                f"the release behind these rows is {self.release.state}, so nothing more may be learnt from them. "
                f"Materialize the table again from `ingested`: a new release is a new charge."
            )
        earlier = [e for e in self.ledger.entries(release_id=self.release.id) if e.mechanism.startswith(TRAINING)]
        deliveries.check_first_training(self.attempt, earlier)
        if earlier:
            return self._resumed(earlier)
        population = self.profile.population
        declared = declared_events(self.ledger, self.release)
        if declared is not None:
            return 0, planning.declared_training(population, declared), None
        room = planning.Room.of(self.release, started_events(self.ledger, self.release), self.delta)
        return 0, *planning.training(room, self.spec, population)

    def _resumed(self, earlier: list[Entry]) -> tuple[int, TrainingPlan, None]:
        """Charge what earlier attempts started, which shuts them out, and plan the steps that are left of the first."""
        *ended, last = earlier
        if last.state != "started":
            raise ReleaseStateError(
                "this training was settled at its mark, so its steps are over. Settle the release, and materialize the "
                "table again from `ingested`: a new release is a new charge."
            )
        (first,) = (e for e in last.events if isinstance(e, SubsampledGaussian))
        before = sum(e.steps_started for e in ended)
        self.ran += (event for e in ended for event in e.events)
        steps = before + last.steps_paid
        cut = self.ledger.settle_at_mark(
            last.id, who=f"release {self.release.id}", why="training resumes from its last checkpoint"
        )
        self.ran += cut.events
        done = before + cut.steps_started
        batch = max(1.0, round(first.sample_rate * self.profile.population))
        return done, TrainingPlan(first.sample_rate, steps, batch, first.noise_multiplier), None


def network_of(folder: Path, releases: set[str]) -> AutoregressiveNetwork | None:
    """Return the network in `folder`, if one of these releases made it."""
    from dp_synth_pipeline.model import artifact

    if not (folder / "generator.json").exists():
        return None
    try:
        generator, facts = artifact.load(folder)
    except InvalidInput:  # another version's
        return None
    return generator.proposal if facts.get("release") in releases else None
