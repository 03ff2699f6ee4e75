"""What DP-SGD asks of a network, so that it can train it without knowing what it is; and how it redraws one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import nn

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.dpsgd.batches import Batch


class Trainable(nn.Module):
    """A network of layers that `clipping` knows, each used once per row; or of any layers, if units are computed one by one.

    Attributes:
        cardinalities: codes of each column that it learns from; public.
        one_by_one: whether each unit's gradient is written out and clipped by itself (see `one_by_one`); every parameter
            then has a gradient.
    """

    cardinalities: tuple[int, ...]
    one_by_one: ClassVar[bool] = False

    @property
    def at_once(self) -> int:
        """Units whose `gradients` it derives together, at most: a power of 2."""
        return 1

    def gradients(self, losses: torch.Tensor) -> torch.Tensor:
        """Return the gradient (units, numbers) of each unit's loss (units,), over all that is trained, in order.

        Raises:
            TrainingError: if there are several units, whose gradients autograd does not tell apart.
        """
        if len(losses) != 1:
            raise TrainingError(f"units are derived one by one here, got {len(losses)} at once; compute parts of one.")
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.cat([g.flatten() for g in torch.autograd.grad(losses.sum(), trained)])[None]

    def by_shape(self, batch: torch.Tensor, weight: torch.Tensor | None) -> Iterator[Batch]:
        """Yield a batch in pieces of units that are computed in one shape each, which follows from a unit's own rows."""
        yield batch, weight

    @abstractmethod
    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the loss (...,) of each row of int64 codes (..., columns): that of a row depends on no other row."""

    def learnt(self) -> list[nn.Parameter]:
        """Return the weights that training moves, all by default. It leaves the others as they are, to the bit."""
        return list(self.parameters())

    def mix(self) -> None:
        """Let weights be what learns best; called by each process before training begins. What is drawn stays as it is."""

    def settle(self) -> None:
        """Let weights be what is drawn by again; called when training has ended."""

    @abstractmethod
    def forget_unused(self) -> None:
        """Zero the weights that no output depends on: training leaves bare noise in them, of use only to an attacker."""

    @abstractmethod
    def blueprint(self) -> Callable[[], Trainable]:
        """Return what makes a network of this shape in another process, with weights of its own."""


@contextmanager
def frozen(network: Trainable) -> Iterator[None]:
    """Let only what the network learns have gradients: what is clipped, noised, moved and averaged is that alone."""
    learnt = {id(p) for p in network.learnt()}
    others = [p for p in network.parameters() if id(p) not in learnt]
    for p in others:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in others:
            p.requires_grad_(True)


@torch.no_grad()
def redraw(network: Trainable) -> None:
    """Replace each weight matrix by normal draws of its own mean and variance (Papernot et al. 2020, section 4).

    Biases stay: those of the last layer hold the columns' shares.

    The noisy weights that it reads are released by the steps before it, so this is post-processing.
    """
    for name, parameter in network.named_parameters():
        used = parameter[parameter != 0]
        if name.endswith("bias") or used.numel() < 2:
            continue
        parameter.copy_(used.mean() + used.std() * torch.randn_like(parameter))
    network.forget_unused()
