"""Where a computation of this room runs: on a GPU if its process sees one, so that a step's `gpus` decide."""

from __future__ import annotations

import torch


def fastest() -> torch.device:
    """Return the first GPU that this process may use; the CPU if there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
