"""One training, step by step: sample, clip, add noise, move, average; with marks before, and checkpoints between.

`training` says what the outside sees of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from opacus.accountants import RDPAccountant

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.dpsgd import checkpoint
from dp_synth_pipeline.model.dpsgd.batches import (
    Batch,
    Sizes,
    UnitRows,
    group_rows,
    part_sizes,
    parts,
    row_classes,
    rows_of,
    unit_sizes,
)
from dp_synth_pipeline.model.dpsgd.canaries import EXAMPLES, LOUD, Canaries
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.distributed import Team
from dp_synth_pipeline.model.dpsgd.lattice import Lattice
from dp_synth_pipeline.model.dpsgd.loss_queries import LossQueries
from dp_synth_pipeline.model.dpsgd.one_by_one import OneByOneClipping
from dp_synth_pipeline.model.dpsgd.optimization import Average, Flat, LatticeOptimizer, decay, inner_optimizer
from dp_synth_pipeline.model.dpsgd.plan import Look, learning_rate
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler
from dp_synth_pipeline.model.dpsgd.repeatable import repeatable_sizes, sizes_at_once
from dp_synth_pipeline.model.dpsgd.trainable import Trainable, redraw
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training
from dp_synth_pipeline.privacy.audit import Audit

CHUNK = 50
"""Steps between two write-ahead marks."""

REDRAWN = 0.2
"""Part of the steps after which a spec that redraws begins again from the layers' means and variances."""


class Descent:
    """The state of one training: the network, its optimizer, the average, and what was accounted."""

    def __init__(self, training: Training, network: Trainable, team: Team, *, private: bool = True) -> None:
        self.training, self.plan, self.private = training, training.plan, private
        self.spec = training.spec.with_(learning_rate=learning_rate(training.plan, training.spec))
        self.network, self.team = network, team
        self.where = next(network.parameters()).device
        self.rows = UnitRows(training.codes, training.units)
        self.sensitivity = 1 if self.spec.microbatch == 1 else 2  # in clips; see UnitRows.take_groups
        self.groups = max(1, round(self.plan.expected_batch / self.spec.microbatch / team.size))
        unit = self.sensitivity * self.spec.max_grad_norm / self.divisor
        left = self.plan.steps - training.resume_from
        self.canaries = Canaries(self.plan, left, unit, self.where) if private else None
        reserved = 0 if self.canaries is None else self.canaries.units
        self.sampler = PoissonSampler(reserved + team.count(len(self.rows)), self.plan.sample_rate)
        self.accountant = RDPAccountant()
        self.lattice = Lattice.under(self.spec.max_grad_norm, self.plan.noise_multiplier * self.sensitivity)
        self.clipping = self._clipping() if private else None
        self.sizes = self._part_sizes()
        self.at_once: dict[torch.Size, tuple[int, ...]] = {}
        population = round(self.plan.expected_batch / self.plan.sample_rate)
        asked = training.queries
        self.queries = None if asked is None else LossQueries(asked, population, team)
        self.looks: list[Look] = []
        self.redrawn = False
        team.follow(network.parameters())
        self.flat = Flat(network)
        self._begin()

    @property
    def divisor(self) -> float:
        """What the noisy sum is divided by: public, and the same whatever was drawn."""
        return self.plan.expected_batch if self.spec.microbatch == 1 else float(self.groups * self.team.size)

    def _clipping(self) -> OnePassClipping | OneByOneClipping:
        """Return what clips: units one by one where the network asks for that, else all units of a part at once."""
        if self.network.one_by_one:
            return OneByOneClipping(self.network, self.lattice)
        return OnePassClipping(self.network, self.spec.max_grad_norm, self.lattice)

    def _part_sizes(self) -> Sizes:
        """Return the sizes of parts in which samples are computed: under privacy, those in which units do not meet.

        Of units that are clipped one by one, these are for losses alone; for gradients, `_sizes_of` has more.
        """
        cards, expected = self.network.cardinalities, self.plan.expected_batch / self.team.size
        classes = self.rows.classes if self.spec.microbatch == 1 else row_classes(group_rows(self.spec.microbatch))
        if self.network.one_by_one:
            return dict.fromkeys(classes or (None,), (1,))
        sizes: Sizes = {
            rows: unit_sizes(expected / self.spec.microbatch, rows, sum(cards), len(cards)) for rows in classes
        }
        if not classes:
            sizes = {None: part_sizes(expected, 1, sum(cards), len(cards))}
        if not isinstance(self.clipping, OnePassClipping):
            return sizes
        return repeatable_sizes(self.network, self.clipping, sizes)

    def _parts(self, batch: torch.Tensor, weight: torch.Tensor | None) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for codes, share in self.network.by_shape(batch, weight):
            yield from parts(codes, share, sum(self.network.cardinalities), self._sizes_of(codes))

    def _sizes_of(self, codes: torch.Tensor) -> Sequence[int]:
        if not self.network.one_by_one:
            return self.sizes[rows_of(codes)]
        shape = codes.shape[1:]
        if shape not in self.at_once:
            self.at_once[shape] = sizes_at_once(self.network, OneByOneClipping(self.network, self.lattice), shape)
        return self.at_once[shape]

    def _begin(self) -> None:
        reserved = [] if self.canaries is None else [self.canaries.parameter]
        self.inner = self.optimizer = inner_optimizer(self.flat, self.spec, reserved)
        self.average = Average(self.flat, self.spec, self.plan.steps)
        if not self.private:
            return
        self.optimizer = LatticeOptimizer(
            self.inner,
            noise_multiplier=self.plan.noise_multiplier * self.sensitivity,
            expected_batch_size=self.divisor,
            lattice=self.lattice,
            team=self.team,
        )
        self.optimizer.attach_step_hook(self.accountant.get_optimizer_hook_fn(self.plan.sample_rate))

    def go(self, hooks: Hooks) -> int:
        """Run the steps from `resume_from` on; return the number of the step before which training ended.

        Raises:
            TrainingError: if Opacus accounted for other steps than were run, or workers ended with different weights.
        """
        first, steps = self.training.resume_from, self.plan.steps
        if first and self.training.checkpoints is not None:
            state = checkpoint.load(self.training.checkpoints, self.flat, self.inner, self.average)
            self.redrawn = state.redrawn
            if self.canaries is not None and self.team.size == 1:  # one file does not hold what several workers saw
                self.canaries.resume(state.audit)
        ask_at = self._query_steps()
        for step in range(first, steps):
            if step in ask_at and not self._query(step, hooks):
                steps = step
                break
            if (step - first) % CHUNK == 0:
                self._mark(step, hooks)
            self._redraw(step)
            self._step(step)
        if self.team.leads:
            hooks.progress(steps, self.plan.steps)
        self.average.copy_to(self.flat)
        if self.queries is not None and self.queries.plan.at_end:
            self._query(steps, hooks)
        self._check(steps - first)
        self.flat.release()
        return steps

    def _mark(self, step: int, hooks: Hooks) -> None:
        """Keep what is done, and make durable what will be started, before any worker starts it."""
        if self.team.leads:
            if self.training.checkpoints is not None and step > self.training.resume_from:
                seen = None if self.canaries is None else self.canaries.state()
                kept = (self.flat, self.inner, self.average)
                checkpoint.save(self.training.checkpoints, *kept, redrawn=self.redrawn, audit=seen)
            hooks.mark(min(step + CHUNK, self.plan.steps))
            hooks.progress(step, self.plan.steps)
        self.team.wait()

    def _redraw(self, step: int) -> None:
        """If the spec redraws, begin again once the first noisy steps are done, if no attempt did so before."""
        if not self.spec.redraws or self.redrawn or step < round(REDRAWN * self.plan.steps):
            return
        redraw(self.network)
        self.team.follow([self.flat.vector])
        self.redrawn = True
        self._begin()

    def _query_steps(self) -> set[int]:
        """Queries come at even distances, at the ends of chunks, so that a stop pays for no step it did not run."""
        if self.queries is None or self.queries.plan.at_end:
            return set()
        every = self.plan.steps / (self.queries.plan.count + 1)
        return {CHUNK * round(every * (i + 1) / CHUNK) for i in range(self.queries.plan.count)} - {0}

    def _query(self, step: int, hooks: Hooks) -> bool:
        if self.queries is None:
            return True
        if self.team.leads:
            hooks.mark_query(len(self.queries.answers) + 1)
        self.team.wait()
        goes_on = self.queries.query(self.network, self.rows, self.sizes if self.spec.microbatch == 1 else {})
        self.looks.append(Look(step, self.queries.answers[-1], self.queries.deviation))
        return goes_on

    def _step(self, step: int) -> None:
        if self.canaries is not None:
            if step in self.canaries.probed_at and self.team.leads:
                self._probe(self.canaries)
            self.canaries.offer()
        for codes, share in (part for batch in self._sample() for part in self._parts(*batch)):
            losses = self._losses(codes, share)
            if self.clipping is not None:
                self.clipping.backward(losses)
            else:
                (losses.sum() / self.divisor).backward()
        if self.clipping is not None:
            self.flat.vector.summed_grad = self.clipping.take()  # type: ignore[attr-defined]
        else:
            self.flat.gather()
            self.team.add(self.flat.vector.grad)  # type: ignore[arg-type]
        decay(self.optimizer, self.spec, step / self.plan.steps)
        self.optimizer.step()
        if self.canaries is not None:
            self.canaries.hear()
        self.optimizer.zero_grad(set_to_none=True)
        self.average.update()

    def _losses(self, codes: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Return each unit's loss (units,), summed over its rows by their weight."""
        losses = self.network.losses(codes.to(self.where)) * share.to(self.where)
        return losses if losses.dim() == 1 else losses.sum(1)

    def _probe(self, canaries: Canaries) -> None:
        """Clip made-up examples as real ones are, and measure what the last of them adds to the sum."""
        several = self.rows.starts is not None or self.spec.microbatch > 1
        shape = (EXAMPLES, 2) if several else (EXAMPLES,)
        codes = torch.stack([torch.randint(c, shape) for c in self.network.cardinalities], -1)
        sums = []
        for which in (slice(None), slice(EXAMPLES - 1), slice(EXAMPLES - 1, None)):
            for some, share in self._parts(codes[which], None):
                weights = share if some.dim() == 2 else share[:, None].expand(some.shape[:2])
                self.clipping.backward(LOUD * self.spec.max_grad_norm * self._losses(some, weights))  # type: ignore[union-attr]
            sums.append(self.lattice.values(self.clipping.take()))  # type: ignore[union-attr]
        canaries.judge_clipping(sums[0], sums[1], sums[2], self.spec.max_grad_norm)

    def audit(self) -> Audit | None:
        """Return what the run was seen to do; None without privacy. To be called once, by every worker."""
        if self.canaries is None:
            return None
        seen = self.canaries.seen(self.team.add(self.canaries.inclusions()))
        return Audit.of(seen, self.plan.noise_multiplier, self.plan.sample_rate)

    def _sample(self) -> list[Batch]:
        chosen = self.sampler.draw()
        chosen = self.team.own(chosen if self.canaries is None else self.canaries.set_apart(chosen))
        if self.spec.microbatch == 1:
            return self.rows.take(chosen)
        return self.rows.take_groups(chosen, size=self.spec.microbatch, groups=self.groups)

    def _check(self, ran: int) -> None:
        self.team.check([self.flat.vector])
        if self.clipping is None:
            return
        self.clipping.close()
        performed = sum(steps for *_, steps in self.accountant.history)
        wanted = {(self.plan.noise_multiplier * self.sensitivity, self.plan.sample_rate)}
        if performed != ran or (ran and {h[:2] for h in self.accountant.history} != wanted):
            raise TrainingError("the steps that Opacus accounted for are not those of the plan; nothing was released.")
