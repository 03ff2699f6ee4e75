"""Brings drawn histories to noisy counts of pairs of columns, by a tilt that each row is drawn by upon what is given. Free.

A history's rows are drawn upon those before them, so a tilt changes what later rows are drawn upon. So histories are drawn,
the tilt is found upon what their rows are drawn upon, and both once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel
    from dp_synth_pipeline.model.marginals.measuring import Marginals

ROUNDS = 2
"""How often histories are drawn, and the tilt is found upon them."""


def rake(model: GenerativeModel, draw: Callable[[GenerativeModel], np.ndarray], measured: Marginals) -> GenerativeModel:
    """Return a model whose histories have the measured marginals, as far as the noise lets one know them.

    Args:
        draw: returns what rows are drawn upon that a model draws, int64 (rows, given columns), a person's rows together as
            often as another's.
        measured: of pairs of columns, at least one of which is not given; all rows of a person count as one.
    """
    for _ in range(ROUNDS):
        given = draw(model)
        if not len(given):
            return model
        model = model.rake_upon(given, measured)
    return model
