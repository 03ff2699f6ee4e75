"""`ssn`, `iban`, `card`: numbers of citizens and of accounts, well formed and made up."""

from __future__ import annotations

import numpy as np

from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.people import Surrogate
from dp_synth_pipeline.tabular.kinds.regenerated import is_number
from dp_synth_pipeline.tabular.kinds.surrogates import LOCALE, drawn
from dp_synth_pipeline.tabular.storage import is_text

AREAS, SERIALS, STRIDE = 566, 9_999, 1_618_033
"""Areas 100 to 665 and serials 1 to 9999 of social security numbers; a step that visits all of them before any again."""


class Ssn(Surrogate):
    """Social security numbers, or what a country has of the kind; in the United States, ones that nobody can have."""

    name = "ssn"
    read_from = (is_text, *is_number)

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        """Return numbers of the locale; for the United States in the group 00, which is never issued (SSA)."""
        if (column.locale or LOCALE) != LOCALE:
            return drawn(column.locale, "ssn", rows)
        places = (rows.astype(np.int64) * STRIDE % (AREAS * SERIALS)).tolist()
        return [f"{100 + n // SERIALS}-00-{1 + n % SERIALS:04d}" for n in places]


class Iban(Surrogate):
    """IBANs of the locale's country, with their check digits."""

    name = "iban"

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        return drawn(column.locale, "iban", rows)


class Card(Surrogate):
    """Numbers of payment cards, with their check digit."""

    name = "card"
    read_from = (is_text, *is_number)

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        return drawn(column.locale, "credit_card_number", rows)
