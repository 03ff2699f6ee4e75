"""Lists that everybody knows of what columns of a certain name hold: states, countries, currencies.

A column's name is public, and so is a list. So its entries may be counted, with noise, without the threshold that hides
which values a private table has. Whether the list is what a column holds is told by the sum of the noisy counts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cache

import numpy as np

from dp_synth_pipeline.tabular.recognition import words_of

MOST, BUT = 0.9, 2.0
"""Part of a column's values that a list must hold, but for so many deviations of noise."""

SURE = 4.5
"""Deviations of noise by which it must hold half of them: with few rows, noise alone holds as many in some list."""

FORM = frozenset(["code", "abbr", "abbreviation", "name", "iso", "alpha", "usps"])
"""Words after the one that says what is listed."""

Lists = tuple[tuple[str, ...], ...]


@cache
def of(name: str) -> Lists:
    """Return the lists that a column of this name may hold, each spelling one; empty for other names.

    Example:
        >>> [values[:3] for values in of("birth_state")][:2], of("status")
        ([('AL', 'AK', 'AZ'), ('al', 'ak', 'az')], ())
    """
    words = list(words_of(name))
    while len(words) > 1 and words[-1] in FORM:
        words.pop()
    return _lists().get(words[-1] if words else "", ())


def held(lists: Lists, keys: Sequence[str], noisy: np.ndarray, present: float, scale: float) -> np.ndarray:
    """Return which keys are entries of the list that a column holds, bool (keys,): of none if there is no such list.

    Args:
        noisy: their counts, with noise of `scale`.
        present: about how many values the column has.
    """
    of_each = [np.isin(keys, values) for values in lists]
    if not of_each:
        return np.zeros(len(keys), dtype=bool)
    best = max(of_each, key=lambda own: noisy[own].sum())
    rows, noise = float(noisy[best].sum()), scale * math.sqrt(best.sum())
    return best & (rows >= MOST * present - BUT * noise and rows - SURE * noise >= present / 2)


@cache
def _lists() -> dict[str, Lists]:
    from faker.providers.address import Provider as Codes
    from faker.providers.address.en import Provider as Countries
    from faker.providers.address.en_US import Provider as States
    from faker.providers.currency import Provider as Money

    abbreviations = (*States.states_abbr, *States.territories_abbr)
    names = (*States.states, "District of Columbia", "Puerto Rico")
    countries = _spelled(Codes.alpha_2_country_codes, Codes.alpha_3_country_codes, Countries.countries)
    return {
        "state": _spelled(abbreviations, names),
        "country": countries,
        "nationality": countries,
        "citizenship": countries,
        "currency": _spelled([code for code, _ in Money.currencies]),
    }


def _spelled(*lists: Collection[str]) -> Lists:
    """Return lists as they are, and in small and capital letters, each list and each entry once."""
    spells = (str, str.lower, str.upper)
    spellings = [tuple(dict.fromkeys(spell(str(v)) for v in values)) for values in lists for spell in spells]
    return tuple(dict.fromkeys(spellings))
