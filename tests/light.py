"""Releases of tests that are not about the quality of rows or the digits of a cost: the same steps and files, sooner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

GRID = 2e-3
"""Width of the grid of privacy losses. An epsilon on a coarser one is a little larger, here by less than a thousandth part,
and never too small; it is computed ten times as fast."""

RAKED = 1 << 12
"""Rows on which a tilt is found: several times as many as such a test's table has."""

WHOLE: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
"""What was lowered, as it is without that: by holder and name, the holder and the value."""


def lighten(put: Callable[[dict[str, Any], str, Any], None]) -> None:
    """Lower how long a network is taught by fits to released marginals, how finely all is fitted, and the grid of costs.

    Fits are post-processing: no charge, no noise and no step of private training depends on them. Costs are a third of
    what a small release computes. Whoever asks for a release for testing trains it for one epoch.

    Args:
        put: sets an item of a dictionary.
    """
    from dp_synth_pipeline.model.autoregressive import initialization
    from dp_synth_pipeline.model.dpsgd import spec
    from dp_synth_pipeline.model.marginals import loglinear, mixture, raking
    from dp_synth_pipeline.privacy import accountant

    for holder, lower in (
        (initialization.teach.__kwdefaults__, {"steps": 20}),
        (mixture.fit.__kwdefaults__, {"steps": 20, "components": 20}),
        (loglinear.draw.__kwdefaults__, {"steps": 20, "rows": 1 << 11}),
        (raking.rake.__kwdefaults__, {"steps": 20}),
        (vars(raking), {"MOST_DRAWS": RAKED, "LEAST_DRAWS": RAKED}),
        (vars(accountant), {"DISCRETISATION": GRID}),
        (spec.MAX_EPOCHS, {spec.Purpose.TESTING: 1}),
    ):
        for name, value in lower.items():
            assert name in holder, f"there is no {name} to lower"
            WHOLE.setdefault((id(holder), name), (holder, holder[name]))
            put(holder, name, value)


@contextmanager
def _lightened(*, costs: bool) -> Iterator[None]:
    from dp_synth_pipeline.privacy import accountant

    whole = accountant.DISCRETISATION
    with pytest.MonkeyPatch.context() as patch:
        lighten(patch.setitem)
        if not costs:
            patch.setattr(accountant, "DISCRETISATION", whole)
        _forget()
        yield
    _forget()


@pytest.fixture(scope="module", autouse=True)
def light() -> Iterator[None]:
    """Lighten every release that is made in this process by tests of a module that imports this fixture."""
    with _lightened(costs=True):
        yield


@pytest.fixture(scope="module", autouse=True, name="light")
def light_but_for_costs() -> Iterator[None]:
    """Lighten all but costs, in modules whose releases are made by other processes as well: a ledger adds up in both."""
    with _lightened(costs=False):
        yield


@pytest.fixture
def whole_fits(light: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fit in full in one test of a light module: one about how well a model follows what was released."""
    for (_, name), (holder, value) in WHOLE.items():
        monkeypatch.setitem(holder, name, value)
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    """Forget the noises that were found on another grid."""
    from dp_synth_pipeline.ledger import costs
    from dp_synth_pipeline.privacy import calibration

    calibration.gaussian_noise.cache_clear()
    costs._largest.cache_clear()
