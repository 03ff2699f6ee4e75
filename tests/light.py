"""Releases of tests that are not about figures: the same steps and files, after less teaching and with coarser losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

INTERVAL = 1e-3
"""Width of the grid of privacy losses: ten times the product's. An epsilon is a little larger there, and never too small."""


def lighten(put: Callable[[dict[str, Any], str, Any], None]) -> None:
    """Lower how long a network is taught by fits to released marginals, how finely these fit them, and the grid's points.

    The first two are post-processing: no charge, no noise and no step of private training depends on them.

    Args:
        put: sets an item of a dictionary.
    """
    from dp_synth_pipeline.model.autoregressive import initialization
    from dp_synth_pipeline.model.marginals import loglinear, mixture
    from dp_synth_pipeline.privacy import accountant

    put(vars(accountant), "DISCRETISATION", INTERVAL)
    for function, lower in (
        (initialization.teach, {"steps": 20}),
        (mixture.fit, {"steps": 20, "components": 20}),
        (loglinear.draw, {"steps": 20, "rows": 1 << 11}),
    ):
        for name, value in lower.items():
            assert name in function.__kwdefaults__, f"{function.__qualname__} has no default of {name}"
            put(function.__kwdefaults__, name, value)


def forget() -> None:
    """Forget what was computed on another grid."""
    from dp_synth_pipeline.ledger import costs
    from dp_synth_pipeline.privacy import calibration

    calibration.gaussian_noise.cache_clear()
    costs._largest.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def light() -> Iterator[None]:
    """Lighten every release that is made in this process by tests of a module that imports this fixture."""
    with pytest.MonkeyPatch.context() as patch:
        lighten(patch.setitem)
        forget()
        yield
    forget()
