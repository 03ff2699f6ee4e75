"""The autoregressive generator as a `GenerativeModel`: a network that draws rows, and the tilt that rakes them, if any."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive import generation, particles
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.autoregressive.suppressed_categories import Fitting, impute
from dp_synth_pipeline.model.base import Allowed, AllowedUpon, Before, Forbidden, GenerativeModel, Released
from dp_synth_pipeline.model.marginals import raking
from dp_synth_pipeline.model.marginals.dependencies import impossible
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals
from dp_synth_pipeline.model.marginals.raking import Tilt

if TYPE_CHECKING:
    from dp_synth_pipeline.model.dpsgd.training import Trained
    from dp_synth_pipeline.model.dpsgd.work import Hooks, Training


PARTICLES = 64
"""Rows tried for each row that is completed."""

NORMAL = 1 << 15
"""Draws from which it is known what all weights of the tilt sum to: within about 0.01 nats."""


@dataclass(frozen=True)
class Generator(GenerativeModel):
    """What a release learnt.

    Attributes:
        proposal: the network that draws rows.
        tilt: what its draws are raked by.
    """

    proposal: AutoregressiveNetwork
    tilt: Tilt | None = None
    kind: ClassVar[str] = GeneratorSpec.kind

    @classmethod
    def begin(cls, cardinalities: Sequence[int], spec: GeneratorSpec, released: Released) -> Generator:
        """Return a generator whose network starts as `spec` says."""
        from dp_synth_pipeline.model.autoregressive import initialization

        previous = released.previous.proposal if isinstance(released.previous, Generator) else None
        return cls(initialization.begin(cardinalities, spec, released, previous=previous))

    def fit(self, training: Training, hooks: Hooks) -> Trained[AutoregressiveNetwork]:
        """Train the network by DP-SGD; from then on its spec is the one that it was trained by."""
        from dp_synth_pipeline.model.dpsgd.training import train

        self.proposal.spec = training.spec  # type: ignore[assignment]
        return train(self.proposal, training, hooks)

    def fit_public(self, training: Training, hooks: Hooks) -> None:
        """Train the network without clipping or noise."""
        from dp_synth_pipeline.model.dpsgd.training import train_public

        train_public(self.proposal, training, hooks)

    def rake(self, measured: Marginals) -> Generator:
        """Return a generator whose draws are weighted towards the marginals.

        The tilt is found on draws that were chosen among more of them, all of one weight, so that it makes good what the
        network misses and not what those draws miss by chance.
        """
        drawn = replace(self, tilt=raking.even(measured.layout)).sample(raking.draws(measured))
        return replace(self, tilt=raking.rake(drawn, measured))

    def rake_upon(self, given: np.ndarray, measured: Marginals) -> Generator:
        """Return a generator whose rows are chosen among several that the network draws upon what is given."""
        drawn = generation.tried(self.proposal, given, np.random.default_rng())
        target = raking.upon(drawn, measured, self.proposal.given)
        never = impossible(measured)
        return replace(self, tilt=raking.rake(drawn, target, contexts=len(given), never=never))

    def draw(
        self,
        rows: int,
        *,
        forbidden: Forbidden | None = None,
        rng: np.random.Generator | None = None,
        batch: int = generation.BATCH,
    ) -> Iterator[np.ndarray]:
        """Yield int64 code matrices (up to `batch`, columns) until `rows` rows were drawn; see `generation.draw`."""
        return generation.draw(self.proposal, self.tilt, rows, forbidden=forbidden, batch=batch, rng=rng)

    def follow(
        self,
        given: np.ndarray,
        *,
        forbidden: Forbidden | None = None,
        allowed: AllowedUpon | None = None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return the own codes that follow what is given; see `generation.follow`."""
        drawn = generation.follow(self.proposal, given, rng, self.tilt, allowed)
        width = given.shape[1]
        placed = {width + column: codes for column, codes in (forbidden or {}).items()}
        return impute(self.proposal, Fitting(self.tilt, allowed, width), drawn, placed, rng)[:, width:]

    @torch.no_grad()
    def lean(self, moves: Sequence[np.ndarray]) -> None:
        """Add to the biases of the columns that are not given."""
        for column, by in enumerate(moves, start=self.proposal.given):
            *_, bias = self.proposal.column(column)
            bias[: len(by)] += torch.as_tensor(by, dtype=bias.dtype, device=bias.device)

    def draw_given(
        self, rows: int, tries: int, allowed: Allowed, *, forbidden: Forbidden | None = None, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        """Return rows among the allowed ones, and how many rows drawn one by one they are worth; see `particles`."""
        found = particles.weighted(self.proposal, self.tilt, tries, allowed, rng)
        codes, effective = particles.kept(found, self.tilt, rows, rng), found.effective
        return impute(self.proposal, Fitting(self.tilt), codes, forbidden or {}, rng), effective

    def complete(
        self, codes: np.ndarray, allowed: Allowed, *, forbidden: Forbidden | None = None, rng: np.random.Generator
    ) -> np.ndarray:
        """Return rows completed by `PARTICLES` particles each; what was known stays as it is."""
        done = codes.copy()
        for at in range(0, len(codes), generation.AT_ONCE // PARTICLES):
            part = slice(at, at + generation.AT_ONCE // PARTICLES)
            held, size = codes[part], (len(codes[part]), PARTICLES)
            drawn = particles.draw_each(self.proposal, self.tilt, size, _clamped(held, allowed, self), rng)
            drawn = impute(self.proposal, Fitting(self.tilt), drawn, forbidden or {}, rng)
            done[part] = np.where(held < 0, drawn, held)
        return done

    def log_likelihood(self, codes: np.ndarray) -> np.ndarray:
        """Return log P(row) of the raked network: its own log-probability, the row's tilt, and the sum of all tilts.

        That sum is the mean weight of `NORMAL` draws, which are the same in every call, so that figures can be compared.
        """
        parts = [codes[at : at + generation.AT_ONCE] for at in range(0, len(codes), generation.AT_ONCE)]
        with torch.no_grad():
            found = [-self.proposal.losses(torch.from_numpy(part)).double().cpu().numpy() for part in parts]
        total = np.concatenate([np.zeros(0), *found])
        if self.tilt is None:
            return total
        rng = np.random.Generator(np.random.PCG64(0))
        weights = self.tilt.log_weights(generation.propose(self.proposal, NORMAL, rng)).astype(np.float64)
        return total + self.tilt.log_weights(codes) - np.logaddexp.reduce(weights) + math.log(NORMAL)

    @property
    def spec(self) -> GeneratorSpec:
        """What the network was made by."""
        return self.proposal.spec

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Codes per column."""
        return self.proposal.cardinalities

    @property
    def weights(self) -> int:
        """Number of released numbers, the tilt's included."""
        tilt = 0 if self.tilt is None else len(self.tilt.values)
        return sum(p.numel() for p in self.proposal.parameters()) + tilt

    def description(self) -> dict[str, Any]:
        """Return the spec, the cardinalities, and the cliques that draws are raked to."""
        cliques = [] if self.tilt is None else [list(c) for c in self.tilt.layout.cliques]
        given = {"given": self.proposal.given} if self.proposal.given else {}
        both = {"moving": self.proposal.moving, "apart": self.proposal.apart}
        more = given | {name: [[c, *before] for c, before in of.items()] for name, of in both.items() if of}
        return {"spec": self.spec.to_dict(), "cardinalities": list(self.cardinalities), "raked_to": cliques, **more}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the network's weights, and the tilt."""
        arrays = {k: v.detach().cpu().contiguous().numpy() for k, v in self.proposal.state_dict().items()}
        return arrays if self.tilt is None else arrays | {"tilt": self.tilt.values}

    @classmethod
    def restore(cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Generator:
        """Return the generator that was saved."""
        cardinalities = tuple(description["cardinalities"])
        moving, apart = (
            {column: Before(given, tuple(order)) for column, given, order in description.get(name, ())}
            for name in ("moving", "apart")
        )
        spec, given = GeneratorSpec(**description["spec"]), description.get("given", 0)
        proposal = AutoregressiveNetwork(cardinalities, spec, given, moving=moving, apart=apart)
        weights = {k: torch.from_numpy(v) for k, v in arrays.items() if k != "tilt"}
        proposal.load_state_dict(weights)
        cliques = tuple(tuple(c) for c in description["raked_to"])
        tilt = Tilt(Layout(cardinalities, cliques), arrays["tilt"]) if "tilt" in arrays else None
        return cls(proposal.eval(), tilt)


def _clamped(codes: np.ndarray, allowed: Allowed, model: Generator) -> Allowed:
    """Return what may stand in each particle: what is known of its row, or else what is allowed."""
    each = np.repeat(codes, PARTICLES, axis=0)

    def mask(column: int, before: np.ndarray) -> np.ndarray | None:
        free, known = allowed(column, before), each[:, column]
        if (known < 0).all():
            return free
        only = np.arange(model.cardinalities[column]) == known[:, None]
        return np.where(known[:, None] < 0, True if free is None else free, only)

    return mask
