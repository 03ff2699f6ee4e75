"""Tells columns that identify somebody by their names, which are public, and by what was released of them with noise.

A name is taken apart into words, whatever its spelling. `by_name` takes no other evidence, so its list is short and holds
what can hardly be anything else. `by_profile` is for names that may be either, such as `store_id`, and asks whether the
noisy profile shows a column that hardly repeats. Neither looks at a row, so neither costs anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.tabular.facts import TableSchema
from dp_synth_pipeline.tabular.kinds.base import Column, Kind, lookup
from dp_synth_pipeline.tabular.policies import OtherPolicy
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile
from dp_synth_pipeline.tabular.storage import is_text

PEOPLE = (
    "patient person customer client user member employee student subject participant respondent applicant citizen insured "
    "policyholder donor guest passenger voter subscriber cardholder"
)
KEYS = "id key uid no nr num number identifier"
THINGS = (
    "id license licence policy order invoice serial case claim ticket transaction receipt registration certificate tracking "
    "reference record document contract booking reservation application permit file docket"
)

KNOWN: dict[str, tuple[str, ...]] = {
    "identifier": (
        *(f"{whom} {key}" for whom, key in product(PEOPLE.split(), KEYS.split())),
        *(
            "mrn",
            "medical record number",
            "medical record no",
            "national id",
            "national id number",
            "tax id",
            "tax number",
        ),
        *("taxpayer id", "nhs number", "passport number", "passport no", "imei", "bank account number"),
        *("driver license number", "drivers license number", "driving licence number"),
    ),
    "ssn": ("ssn", "social security number", "social security no", "social security"),
    "email": ("email", "e mail", "email address", "e mail address", "mail address", "email addr"),
    "phone": (
        *("phone", "phone number", "phone no", "telephone number", "telephone no", "mobile number", "mobile phone"),
        *("cell phone", "mobile no", "msisdn", "fax number"),
    ),
    "first_name": ("first name", "given name", "forename", "name first", "vorname", "prenom"),
    "last_name": ("last name", "surname", "family name", "name last", "maiden name", "nachname"),
    "name": ("full name", *(f"{whom} name" for whom in PEOPLE.split() if whom != "user")),
    "username": ("username", "user name", "login name"),
    "address": ("home address", "postal address", "mailing address", "billing address", "shipping address"),
    "street": ("street address", "address line"),
    "iban": ("iban",),
    "card": ("credit card number", "card number", "credit card no", "card no", "cc number"),
    "uuid": ("uuid", "guid"),
    "ip": ("ip address", "ip addr", "ipv4 address"),
}
"""What the last words of a name say for certain, by the kind that makes their values anew."""

WHOLE = {"id": "identifier", "uid": "identifier", "unnamed 0": "identifier"}
"""Names that say so if they have no other word; the last is the index that pandas wrote into a CSV."""

DOUBTFUL: dict[str, tuple[str, ...]] = {
    "identifier": (
        "id",
        "key",
        "uid",
        "identifier",
        "ref",
        "reference",
        "passport",
        "vin",
        "account",
        "account number",
        *(f"{what} {key}" for what, key in product(THINGS.split(), ("no", "nr", "num", "number"))),
    ),
    "phone": ("telephone", "tel", "mobile", "fax"),
    "address": ("address", "addr"),
    "street": ("street",),
    "company": ("company", "company name", "employer"),
    "username": ("login",),
    "card": ("credit card",),
    "ip": ("ip", "ipv4"),
    "url": ("url", "website", "homepage", "link"),
}
"""What may be something else: recognised if the column hardly repeats, too."""

DOUBTFUL_WHOLE = {"name": "name", "user": "username", "card": "card"}

BEFORE = (
    "is has had no not num number n count total own owns with without wants opt prefers allows valid verified missing avg "
    "mean max min sum pct percent ratio rate days months years time since type kind status"
)
"""Words after which a name is about something else, as in `has_phone`."""

HIDDEN = 0.95
"""Part of a text column's values that were suppressed, from which it hardly repeats."""

SPREAD = 0.5
"""Width of a column of whole numbers, in rows, from which it may number them."""


def words_of(name: str) -> tuple[str, ...]:
    """Take a name apart into words in lower case, without accents; numbers at its end are none.

    Example:
        >>> words_of("PatientID"), words_of("e-mail_2"), words_of("nameFirst"), words_of("Téléphone")
        (('patient', 'id'), ('e', 'mail'), ('name', 'first'), ('telephone',))
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", plain)]
    while len(words) > 1 and words[-1].isdigit() and words != ["unnamed", "0"]:
        words.pop()
    return tuple(words)


def by_name(name: str, arrow_type: pa.DataType | None = None) -> Kind | None:
    """Return the kind of a column whose name alone says that it identifies somebody; None if it does not.

    Args:
        arrow_type: its storage type, which the kind must be read from; None for a CSV's column, which has none.
    """
    words = words_of(name)
    whole = WHOLE.get(" ".join(words))
    return _fitting(whole or _meant(words, KNOWN), arrow_type)


def names_a_unit(name: str) -> bool:
    """Whether a column's name says that its values name people, of whom each may have several rows.

    Example:
        >>> [names_a_unit(name) for name in ("patient_id", "CustomerNo", "person", "mrn", "id", "patient_age")]
        [True, True, True, True, False, False]
    """
    words = words_of(name)
    return " ".join(words) in PEOPLE.split() or _meant(words, {"identifier": KNOWN["identifier"]}) is not None


def by_profile(column: Column, profile: ColumnProfile, rows: int, hint: str | None = None) -> Kind | None:
    """Return the kind of a column that hardly repeats, by its noisy profile, and whose name or cells say what it is.

    Args:
        rows: the noisy number of rows.
        hint: the kind that the noisy classes of its cells tell of; None if they tell of none.
    """
    words = words_of(column.name)
    meant = hint or DOUBTFUL_WHOLE.get(" ".join(words)) or _meant(words, DOUBTFUL)
    kind = _fitting(meant, column.arrow_type)
    return kind if kind is not None and hardly_repeats(column, profile, rows) else None


def hardly_repeats(column: Column, profile: ColumnProfile, rows: int) -> bool:
    """Whether few or none of a column's values were common enough to be released; whole numbers must spread, too."""
    present = 1 - profile.null_rate
    if present <= 0:
        return False
    if column.kind.categorical:
        return is_text(column.arrow_type) and (not profile.values or profile.other >= HIDDEN * present)
    low, high = profile.lower, profile.upper
    return column.kind.whole and not profile.values and None not in (low, high) and high - low >= SPREAD * rows  # type: ignore[operator]


def declared_with(
    declared: Mapping[str, Mapping[str, Any] | None] | None,
    storage: Mapping[str, pa.DataType | None],
    *,
    kept: Collection[str] | None,
    unit: str | None,
    locale: str | None,
    complete: bool = False,
) -> dict[str, Mapping[str, Any] | None]:
    """Return declared facts with the kinds of columns that nobody declared anything about, where they were recognised.

    Args:
        storage: the source's columns; None for the type of a CSV's.
        kept: columns that stay what they are, whatever their names say; None recognises no name.
        unit: the privacy unit's column, which stays an identifier.
        locale: of all columns that have one and declare none.
        complete: whether a column that is not among the declared ones is to be refused.
    """
    facts = dict(declared or {})
    for name, arrow_type in storage.items():
        if facts.get(name) or name == unit or (complete and name not in facts):
            continue
        kind = by_name(name, arrow_type) if kept is not None and name not in kept else None
        if kind is not None:
            facts[name] = {"kind": kind.name}
    return {name: _in_locale(of, locale) for name, of in facts.items()}


def regenerated(schema: TableSchema, kinds: Mapping[str, str], locale: str | None) -> TableSchema:
    """Return a schema in which columns are of kinds that released figures told of, unless that left none to learn.

    Args:
        kinds: by column; a kind that a column's storage type cannot be read as is left out.
        locale: of kinds that have one.
    """
    columns = tuple(_regenerated(c, kinds.get(c.name), locale) for c in schema.columns)
    return TableSchema(columns) if any(c.kind.learned for c in columns) else schema


def _regenerated(column: Column, kind: str | None, locale: str | None) -> Column:
    found = _fitting(kind, column.arrow_type)
    if found is None:
        return column
    own = {
        "kind": found,
        "storage": found.storage(column.arrow_type),
        "locale": locale if "locale" in found.takes else None,
    }
    return replace(column, **own, other=OtherPolicy.DROP, format=None)  # as a declared column of this kind is


def _in_locale(facts: Mapping[str, Any] | None, locale: str | None) -> Mapping[str, Any] | None:
    if locale is None or not isinstance(facts, Mapping) or facts.get("locale") is not None:
        return facts
    try:
        return {**facts, "locale": locale} if "locale" in lookup(facts.get("kind")).takes else facts
    except ValueError:
        return facts


def _fitting(kind: str | None, arrow_type: pa.DataType | None) -> Kind | None:
    if kind is None:
        return None
    found = lookup(kind)
    return found if arrow_type is None or found.reads(arrow_type) else None


def _meant(words: tuple[str, ...], phrases: Mapping[str, Iterable[str]]) -> str | None:
    """Return the kind of the longest phrase with which a name ends, or which it is without a blank."""
    best, longest = None, 0
    for kind, known in phrases.items():
        for phrase in map(str.split, known):
            before = words[: -len(phrase)]
            ends = words[-len(phrase) :] == tuple(phrase) and not set(BEFORE.split()) & set(before)
            if (ends or words == ("".join(phrase),)) and len(phrase) > longest:
                best, longest = kind, len(phrase)
    return best
