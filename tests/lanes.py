"""Which tests run with every change, and which nightly: what takes long and is much like another one waits for the night."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def by_night(params: Iterable[Any], night: Collection[Any]) -> list[Any]:
    """Return parameters of a test, of which some run nightly alone."""
    return [pytest.param(p, marks=pytest.mark.nightly) if p in night else p for p in params]


def one_now(params: Iterable[Any]) -> list[Any]:
    """Return mistakes that an attack must catch, of which all but the first run nightly alone.

    They tell that the attack has teeth, of which one is enough to know after a change of the product.
    """
    first, *rest = params
    return by_night([first, *rest], rest)
