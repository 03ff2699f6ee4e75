"""`first_name`, `last_name`, `name`, `phone`, `address`, `street`, `company`: a made-up person a row, never a real one.

All columns of a row speak of one person, and those whose names speak of a doctor or a mother, of another one.
"""

from __future__ import annotations

import numpy as np

from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.regenerated import Regenerated, is_number
from dp_synth_pipeline.tabular.kinds.surrogates import LOCALE, hashed, picked, renumbered, who
from dp_synth_pipeline.tabular.storage import is_text

LAST_FIRST = ("ja_JP", "ko_KR", "zh_CN", "zh_TW", "hu_HU", "vi_VN")
"""Locales in which the last name comes first."""

FICTIONAL = ("en_US", "en_CA")
"""Locales with numbers that nobody has: 555-0100 to 555-0199 in every area are kept for fiction (NANPA)."""


class Surrogate(Regenerated):
    """Values by Faker, in the column's locale."""

    takes = ("locale",)


class FirstName(Surrogate):
    """Given names."""

    name = "first_name"

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        return picked(column.locale, "first_name", rows, who(column.name))


class LastName(Surrogate):
    """Family names."""

    name = "last_name"

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        return picked(column.locale, "last_name", rows, who(column.name))


class Name(Surrogate):
    """Full names: the row's first and last name."""

    name = "name"

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        first, last = both_names(column, rows)
        if column.locale in LAST_FIRST:
            first, last = last, first
        return [f"{a} {b}" for a, b in zip(first, last, strict=True)]


class Phone(Surrogate):
    """Telephone numbers; in North America, ones that are kept for fiction."""

    name = "phone"
    read_from = (is_text, *is_number)

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        numbers = hashed(rows, f"phone{who(column.name)}")
        if (column.locale or LOCALE) in FICTIONAL:
            return [f"({200 + (n // 100) % 800}) 555-01{n % 100:02d}" for n in numbers.tolist()]
        return renumbered(picked(column.locale, "phone_number", rows, who(column.name)), numbers, last=3)


class Address(Surrogate):
    """Postal addresses on one line."""

    name = "address"

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        places = picked(column.locale, "address", rows, who(column.name))
        return renumbered(places, hashed(rows, f"digits{who(column.name)}"))


class Street(Surrogate):
    """Streets with the number of a house."""

    name = "street"

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        places = picked(column.locale, "street_address", rows, who(column.name))
        return renumbered(places, hashed(rows, f"digits{who(column.name)}"))


class Company(Surrogate):
    """Names of companies."""

    name = "company"

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        return picked(column.locale, "company", rows)


def both_names(column: Column, rows: np.ndarray) -> tuple[list[str], list[str]]:
    """Return the first and the last name of the person whom a column tells of, in each row."""
    person = who(column.name)
    return picked(column.locale, "first_name", rows, person), picked(column.locale, "last_name", rows, person)
