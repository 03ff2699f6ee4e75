"""What is made anew: a function of the row's number alone, unique where it should be, and one person a row."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.tabular.kinds import KINDS, Column, Kind
from dp_synth_pipeline.tabular.kinds.identifier import PLACES, counted
from dp_synth_pipeline.tabular.kinds.surrogates import slug

MADE = [k for k in KINDS.values() if k.regenerated]
NUMBERS = [pa.int16(), pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(9, 0), pa.decimal128(38, 0)]
LOCALES = ("en_US", "de_DE", "fr_FR", "pl_PL", "ja_JP", "pt_BR")


def column(kind: Kind, arrow_type: pa.DataType = pa.string(), **facts: str) -> Column:
    return Column(facts.pop("name", str(kind)), kind, kind.storage(arrow_type), **facts)


@pytest.mark.parametrize("kind", MADE, ids=str)
@settings(max_examples=12, deadline=None)
@given(first=st.integers(0, 3000), rows=st.integers(0, 40), cut=st.integers(0, 40))
@example(first=1020, rows=10, cut=7)
def test_a_row_has_its_value_however_many_are_made_and_in_whatever_parts(
    kind: Kind, first: int, rows: int, cut: int
) -> None:
    one, cut = column(kind), min(cut, rows)
    whole = one.kind.generated(one, first, rows)
    parts = [kind.generated(one, first, cut), kind.generated(one, first + cut, rows - cut)]
    assert (len(whole), whole.null_count, whole.type) == (rows, 0, pa.string())
    assert pa.concat_arrays(parts).equals(whole)


@pytest.mark.parametrize("kind", [k for k in MADE if k.unique], ids=str)
def test_unique_kinds_never_repeat(kind: Kind) -> None:
    assert len(set(kind.generated(column(kind), 0, 30_000).to_pylist())) == 30_000


@pytest.mark.parametrize("arrow_type", NUMBERS, ids=str)
@pytest.mark.parametrize("kind", MADE, ids=str)
def test_a_numeric_column_stays_numeric(kind: Kind, arrow_type: pa.DataType) -> None:
    if not kind.reads(arrow_type):
        assert kind not in (Kind.IDENTIFIER, Kind.SSN, Kind.PHONE, Kind.CARD)
        return
    found = column(kind, arrow_type)
    values = kind.generated(found, 0, 50)
    assert pa.types.is_integer(arrow_type) == pa.types.is_integer(values.type)
    assert (len(values), values.null_count, values.type) == (50, 0, found.arrow_type)


@settings(max_examples=200, deadline=None)
@given(
    pattern=st.text("#?A-0", min_size=1, max_size=6), numbers=st.lists(st.integers(1, 10**6), min_size=2, max_size=2)
)
def test_a_pattern_counts_without_a_repeat_also_beyond_its_places(pattern: str, numbers: list[int]) -> None:
    if not set(pattern) & set(PLACES):
        return
    a, b = (counted(pattern, n) for n in numbers)
    assert (a == b) == (numbers[0] == numbers[1])
    fits = re.escape(pattern).replace(r"\#", "[0-9]").replace(r"\?", "[A-Z]").replace("#", "[0-9]")
    if numbers[0] < 10 and "#" in pattern:
        assert re.fullmatch(fits, counted(pattern, numbers[0]))


@pytest.mark.parametrize("locale", LOCALES)
def test_the_columns_of_a_row_speak_of_one_person(locale: str) -> None:
    firsts, lasts, names, emails = (
        k.generated(column(k, locale=locale), 7, 300).to_pylist()
        for k in (Kind.FIRST_NAME, Kind.LAST_NAME, Kind.NAME, Kind.EMAIL)
    )
    for first, last, name, email in zip(firsts, lasts, names, emails, strict=True):
        assert name in (f"{first} {last}", f"{last} {first}")
        assert email.startswith(".".join(filter(None, (slug(first), slug(last)))))
    assert len(set(names)) > 200


def test_a_doctor_is_another_person_than_the_row_is_about() -> None:
    own = Kind.NAME.generated(column(Kind.NAME, name="name"), 0, 100).to_pylist()
    patient = Kind.NAME.generated(column(Kind.NAME, name="patient_name"), 0, 100).to_pylist()
    doctor = Kind.NAME.generated(column(Kind.NAME, name="doctor_name"), 0, 100).to_pylist()
    assert own == patient
    assert np.mean([a == b for a, b in zip(own, doctor, strict=True)]) < 0.1


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("kind", [k for k in MADE if "locale" in k.takes], ids=str)
def test_every_kind_is_made_in_every_locale(kind: Kind, locale: str) -> None:
    values = kind.generated(column(kind, locale=locale), 0, 3).to_pylist()
    assert all(v and "\n" not in v for v in values)


def test_what_could_be_somebodys_is_nobodys() -> None:
    """Numbers and hosts that are kept for fiction, documentation and private networks, or never issued."""
    made = {
        k: k.generated(column(k), 0, 5000).to_pylist() for k in (Kind.SSN, Kind.PHONE, Kind.EMAIL, Kind.URL, Kind.IP)
    }
    assert all(re.fullmatch(r"[1-6]\d\d-00-\d{4}", v) for v in made[Kind.SSN])
    assert all(re.fullmatch(r"\([2-9]\d\d\) 555-01\d\d", v) for v in made[Kind.PHONE])
    assert all(re.fullmatch(r"[a-z.]+\d+@example\.(com|org|net)", v) for v in made[Kind.EMAIL])
    assert all(v.startswith("https://example.") for v in made[Kind.URL])
    assert all(v.startswith("10.") and all(0 <= int(part) < 256 for part in v.split(".")) for v in made[Kind.IP])


def test_check_digits_are_right() -> None:
    for iban in Kind.IBAN.generated(column(Kind.IBAN, locale="de_DE"), 0, 50).to_pylist():
        digits = "".join(str(int(c, 36)) for c in iban[4:] + iban[:4])
        assert (iban[:2], int(digits) % 97) == ("DE", 1)
    for card in Kind.CARD.generated(column(Kind.CARD), 0, 50).to_pylist():
        doubled = [int(d) * (1 + i % 2) for i, d in enumerate(reversed(card))]
        assert sum(d // 10 + d % 10 for d in doubled) % 10 == 0
