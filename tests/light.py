"""Releases of tests that are not about the quality of rows: the same steps, charges and files, after less teaching."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


def lighten(put: Callable[[dict[str, Any], str, Any], None]) -> None:
    """Lower how long a network is taught by fits to released marginals, and how finely these fit them.

    Both are post-processing: no charge, no noise and no step of private training depends on them.

    Args:
        put: sets an item of a dictionary.
    """
    from dp_synth_pipeline.model.autoregressive import initialization
    from dp_synth_pipeline.model.marginals import loglinear, mixture

    for function, lower in (
        (initialization.teach, {"steps": 20}),
        (mixture.fit, {"steps": 20, "components": 20}),
        (loglinear.draw, {"steps": 20, "rows": 1 << 11}),
    ):
        for name, value in lower.items():
            assert name in function.__kwdefaults__, f"{function.__qualname__} has no default of {name}"
            put(function.__kwdefaults__, name, value)


@pytest.fixture(scope="module", autouse=True)
def light() -> Iterator[None]:
    """Lighten every release that is made in this process by tests of a module that imports this fixture."""
    with pytest.MonkeyPatch.context() as patch:
        lighten(patch.setitem)
        yield
