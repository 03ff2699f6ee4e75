"""The autoregressive generator as a `GenerativeModel`: a network that draws rows, and the tilt that rakes them, if any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive import generation
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Forbidden, GenerativeModel, Released
from dp_synth_pipeline.model.marginals import raking
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals
from dp_synth_pipeline.model.marginals.raking import Tilt

if TYPE_CHECKING:
    from dp_synth_pipeline.model.dpsgd.training import Trained
    from dp_synth_pipeline.model.dpsgd.work import Hooks, Training


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
        return cls(
            initialization.begin(
                cardinalities,
                spec,
                released.shares,
                measured=released.measured,
                previous=previous,
                public=released.public,
            )
        )

    def fit(self, training: Training, hooks: Hooks) -> Trained[AutoregressiveNetwork]:
        """Train the network by DP-SGD."""
        from dp_synth_pipeline.model.dpsgd.training import train

        return train(self.proposal, training, hooks)

    def fit_public(self, training: Training, hooks: Hooks) -> None:
        """Train the network without clipping or noise."""
        from dp_synth_pipeline.model.dpsgd.training import train_public

        train_public(self.proposal, training, hooks)

    def rake(self, measured: Marginals) -> Generator:
        """Return a generator whose draws are weighted towards the marginals."""
        drawn = generation.propose(self.proposal, raking.draws(measured))
        return replace(self, tilt=raking.rake(drawn, measured))

    def draw(
        self, rows: int, *, forbidden: Forbidden | None = None, batch: int = generation.BATCH
    ) -> Iterator[np.ndarray]:
        """Yield int64 code matrices (up to `batch`, columns) until `rows` rows were drawn; see `generation.draw`."""
        return generation.draw(self.proposal, self.tilt, rows, forbidden=forbidden, batch=batch)

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
        return {"spec": self.spec.to_dict(), "cardinalities": list(self.cardinalities), "raked_to": cliques}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the network's weights, and the tilt."""
        arrays = {k: v.detach().cpu().contiguous().numpy() for k, v in self.proposal.state_dict().items()}
        return arrays if self.tilt is None else arrays | {"tilt": self.tilt.values}

    @classmethod
    def restore(cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Generator:
        """Return the generator that was saved."""
        cardinalities = tuple(description["cardinalities"])
        proposal = AutoregressiveNetwork(cardinalities, GeneratorSpec(**description["spec"]))
        weights = {k: torch.from_numpy(v) for k, v in arrays.items() if k != "tilt"}
        proposal.load_state_dict(weights)
        cliques = tuple(tuple(c) for c in description["raked_to"])
        tilt = Tilt(Layout(cardinalities, cliques), arrays["tilt"]) if "tilt" in arrays else None
        return cls(proposal.eval(), tilt)
