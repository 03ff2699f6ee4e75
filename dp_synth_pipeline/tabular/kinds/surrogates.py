"""Draws made-up names, addresses and numbers by Faker, each a function of a locale and the number of a row alone.

No value depends on the source or on a seed that anybody keeps. So a row has the same first name, last name and e-mail
address however many rows are drawn, and in whatever parts. Faker is imported when the first value is made.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_synth_pipeline.errors import InvalidInput

if TYPE_CHECKING:
    from faker import Faker

LOCALE = "en_US"

BLOCK = 1024
"""Values that are drawn at a time, and the number of different names and places of one sort."""

SECOND = (
    "doctor physician nurse provider referrer emergency mother father parent guardian spouse partner child manager "
    "supervisor employer seller agent recipient sender beneficiary"
)
"""Words in a column's name that tell of somebody else than the person whom the row is about."""


def check_locale(locale: Any, what: str) -> str:
    """Return a locale that Faker knows.

    Raises:
        InvalidInput: if it is none.
    """
    from faker.config import AVAILABLE_LOCALES

    if locale not in AVAILABLE_LOCALES:
        near = sorted(known for known in AVAILABLE_LOCALES if known[:2] == str(locale)[:2].lower())
        raise InvalidInput(
            f"{what}: expected a language and country such as {', '.join(near) or 'de_DE, en_US or fr_FR'}; got {locale!r}."
        )
    return locale


def picked(locale: str | None, provider: str, rows: np.ndarray, who: str = "") -> list[str]:
    """Return one of `BLOCK` values for each row, by a hash of its number.

    Args:
        provider: a method of Faker, such as `first_name`.
        who: tells several persons of one row apart.
    """
    pool = _block(locale or LOCALE, provider, 0)
    return [pool[i] for i in hashed(rows, f"{provider}{who}") % np.uint64(len(pool))]


def drawn(locale: str | None, provider: str, rows: np.ndarray) -> list[str]:
    """Return a value of its own for each row."""
    return [_block(locale or LOCALE, provider, (int(n) - 1) // BLOCK)[(int(n) - 1) % BLOCK] for n in rows]


def renumbered(texts: list[str], numbers: np.ndarray, last: int | None = None) -> list[str]:
    """Return texts with other digits, from a number each; a digit that leads stays, and so do all but the last ones.

    Args:
        last: how many digits at the end change; by default all of each text.
    """
    out = []
    for text, number in zip(texts, numbers.tolist(), strict=True):
        places = [m.start() for m in re.finditer(r"(?<=[0-9])[0-9]", text)][
            slice(None if last is None else -last, None)
        ]
        cells = list(text)
        for place in places:
            number, digit = divmod(number, 10)
            cells[place] = str(digit)
        out.append("".join(cells))
    return out


def hashed(rows: np.ndarray, what: str) -> np.ndarray:
    """Return a well mixed 64-bit number for each row's number: splitmix64 (Steele, Lea and Flood 2014)."""
    salt = np.uint64(int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest(), "big"))
    with np.errstate(over="ignore"):
        z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + salt
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def who(name: str) -> str:
    """Return which other person a column's name tells of; empty for the person whom the row is about.

    Example:
        >>> who("doctor_name"), who("last_name")
        ('doctor', '')
    """
    return "".join(sorted(set(re.findall(r"[a-z]+", name.lower())) & set(SECOND.split())))


def slug(text: str) -> str:
    """Return the Latin letters of a name in lower case; nothing of one in another script.

    Example:
        >>> slug("Jürgen Weiß-Müller"), slug("山田")
        ('jurgenweissmuller', '')
    """
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("ø", "o").replace("ł", "l"))
    return re.sub(r"[^a-z]", "", plain.encode("ascii", "ignore").decode().lower())


@lru_cache(maxsize=64)
def _block(locale: str, provider: str, number: int) -> tuple[str, ...]:
    """Return the values of rows `number` * `BLOCK` + 1 and on."""
    fake = _faker(locale)
    fake.seed_instance(f"{provider} {number}")  # it repeats values, and protects nothing
    return tuple(re.sub(r"\s*\n\s*", ", ", str(getattr(fake, provider)())) for _ in range(BLOCK))


@cache
def _faker(locale: str) -> Faker:
    from faker import Faker

    return Faker(locale)
