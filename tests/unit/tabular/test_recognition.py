"""Which columns are taken for identifiers: by name, by what may be read so, and by the noisy profile."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import recognition
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile
from dp_synth_pipeline.tabular.schema import Column, build
from dp_synth_pipeline.tabular.sources import ingestion, source

CERTAIN = {
    "identifier": "patient_id PatientID patientid PATIENT-ID userId customer_number MRN hospital_mrn id ID tax_id",
    "ssn": "ssn SSN social_security_number socialSecurityNumber patient_ssn",
    "email": "email E-Mail emailAddress customer_email email2 e_mail",
    "phone": "phone phone1 home_phone PhoneNumber telephone_number mobilePhone",
    "first_name": "first_name firstName nameFirst Vorname",
    "last_name": "last_name Surname nameLast family_name Nachname",
    "name": "full_name patient_name personName",
    "iban": "iban IBAN account_iban",
    "card": "credit_card_number card_number",
    "uuid": "uuid row_guid",
    "ip": "ip_address IPAddress",
    "street": "street_address address_line_2",
    "username": "username user_name",
}

NOT_CERTAIN = (
    "age age_id department_id store_id product_name name city zip postcode state card_type CreditCard email_verified "
    "has_phone is_email num_emails number_of_phones own_telephone telephone contact user_agent patient_count n_patients "
    "idle video valid grid paid name_length username_changed IP BMI fnlwgt education_num mail hours_per_week phone_type "
    "occupation native_country plan_id company address url website days_since_email"
)

ADULT = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain capital_loss "
    "hours_per_week native_country income"
)


@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, names in CERTAIN.items() for n in names.split()])
def test_a_name_says_what_a_column_is_in_any_spelling(kind: str, name: str) -> None:
    assert str(recognition.by_name(name)) == kind


@pytest.mark.parametrize("name", [*NOT_CERTAIN.split(), *ADULT.split(), "", "…"])
def test_a_name_that_may_mean_something_else_says_nothing(name: str) -> None:
    assert recognition.by_name(name) is None


def test_a_storage_type_that_the_kind_is_not_read_from_speaks_against_a_name() -> None:
    assert recognition.by_name("email", pa.bool_()) is None
    assert recognition.by_name("patient_id", pa.timestamp("us")) is None
    assert recognition.by_name("ssn", pa.int64()) is Kind.SSN


def text(name: str, other: float, nulls: float = 0.0) -> tuple[Column, ColumnProfile]:
    values = () if other + nulls >= 1 else ("one",)
    weights = (1 - other - nulls,) * len(values)
    return Column(name, Kind.CATEGORY, "string"), ColumnProfile(
        name, Kind.CATEGORY, values, weights, other=other, null_rate=nulls
    )


def whole(name: str, low: float, high: float, heavy: bool = False) -> tuple[Column, ColumnProfile]:
    values, weights = ((5,), (0.2,)) if heavy else ((), ())
    cells = ColumnProfile(name, Kind.INTEGER, values, weights, ((low, high),), (1 - sum(weights),))
    return Column(name, Kind.INTEGER, "int64"), cells


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (text("store_id", 1.0), "identifier"),
        (text("store_id", 0.5), None),
        (text("license_number", 1.0), "identifier"),
        (text("idNum", 1.0), "identifier"),
        (text("invoice_no", 0.5), None),
        (text("flight_number", 1.0), None),
        (text("name", 0.97), "name"),
        (text("name", 0.6, nulls=0.38), "name"),
        (text("product_name", 1.0), None),
        (text("remarks", 1.0), None),
        (text("telephone", 1.0), "phone"),
        (text("telephone", 0.0, nulls=1.0), None),
        (whole("order_id", 1, 5000), "identifier"),
        (whole("order_id", 1, 5000, heavy=True), None),
        (whole("store_id", 1, 40), None),
        (whole("case_number", 1, 5000), "identifier"),
        (whole("rank", 1, 5000), None),
    ],
)
def test_a_doubtful_name_counts_where_the_noisy_profile_hardly_repeats(
    column: tuple[Column, ColumnProfile], kind: str | None
) -> None:
    found = recognition.by_profile(*column, rows=5000)
    assert (None if found is None else found.name) == kind


def test_web_addresses_identify_somebody_only_if_they_hardly_repeat() -> None:
    assert recognition.by_profile(*text("page", 1.0), rows=5000, hint="url") is Kind.URL
    assert recognition.by_profile(*text("page", 0.2), rows=5000, hint="url") is None


SOURCE = {"patient_id": pa.int64(), "email": pa.string(), "age": pa.int64()}


def declared(**facts: dict | None) -> dict[str, object]:
    how = {"unit": None, "locale": None, "complete": False, "kept": ()}
    how |= {k: facts.pop(k) for k in tuple(how) if k in facts}
    return recognition.declared_with(facts, SOURCE, **how)  # type: ignore[arg-type]


def test_what_a_person_declared_anything_about_stays_what_it_is() -> None:
    assert declared() == {"patient_id": {"kind": "identifier"}, "email": {"kind": "email"}}
    assert declared(email={"nulls": "mode"})["email"] == {"nulls": "mode"}
    assert declared(email=None)["email"] == {"kind": "email"}
    assert "patient_id" not in declared(kept=("patient_id",))
    assert declared(unit="email", kept=("patient_id",)) == {}
    assert declared(kept=None) == {}


def test_a_column_that_must_be_declared_is_not_recognised_instead() -> None:
    assert declared(complete=True, email={}) == {"email": {"kind": "email"}}


def test_the_locale_of_a_table_is_that_of_columns_which_have_one_and_declare_none() -> None:
    found = declared(locale="de_DE", age={"lower": 0}, patient_id={"kind": "name", "locale": "fr_FR"})
    assert found == {
        "age": {"lower": 0},
        "patient_id": {"kind": "name", "locale": "fr_FR"},
        "email": {"kind": "email", "locale": "de_DE"},
    }


def test_recognition_leaves_a_column_to_learn() -> None:
    schema = build({"page": pa.string(), "age": pa.int64()})
    assert recognition.regenerated(schema, {"page": "url"}, None)["page"].kind is Kind.URL
    assert recognition.regenerated(schema, {"page": "url", "age": "identifier"}, None) == schema


def test_a_recognised_column_is_the_one_that_a_person_would_have_declared() -> None:
    inferred, asked = build(SOURCE, {}), build(SOURCE, {"email": {"kind": "email", "locale": "de_DE"}})
    assert recognition.regenerated(inferred, {"email": "email"}, "de_DE") == asked


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"kind": "category", "pattern": "##"}, "pattern: kind category has none; these have: identifier"),
        ({"kind": "identifier", "locale": "de_DE"}, "locale: kind identifier has none; these have: first_name"),
        ({"kind": "identifier", "pattern": "MRN"}, "each # stands for a digit"),
        ({"kind": "name", "locale": "de_XX"}, "such as .*de_AT"),
    ],
)
def test_a_pattern_or_a_locale_that_cannot_be_is_refused(facts: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        build(SOURCE, {"email": facts})


def test_a_pattern_of_a_numeric_column_is_digits() -> None:
    assert build(SOURCE, {"patient_id": {"kind": "identifier", "pattern": "9###"}})["patient_id"].pattern == "9###"
    with pytest.raises(InvalidInput, match="holds numbers"):
        build(SOURCE, {"patient_id": {"kind": "identifier", "pattern": "MRN-##"}})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_recognised_column_is_not_read(suffix: str, tmp_path: Path) -> None:
    rows = pa.table({"patient_id": [7, 8], "email": ["a@b.org", "c@d.org"], "age": [1, 2]}).to_pandas()
    path = tmp_path / f"rows.{suffix}"
    rows.to_csv(path, index=False) if suffix == "csv" else rows.to_parquet(path)
    taken = ingestion.snapshot(source.parse(str(path)), tmp_path / "r" / "snapshot.parquet", kept=())
    assert pq.read_schema(taken.path).names == ["age"]
    assert [str(c.kind) for c in taken.schema.columns[:2]] == ["identifier", "email"]
    assert set(taken.untyped) <= {"age"}


@pytest.mark.parametrize(
    "name", ["patient_id", "customer_id", "CustomerNo", "person", "user_id", "userId", "MRN", "person_2"]
)
def test_a_name_may_say_that_a_column_names_people(name):
    assert recognition.names_a_unit(name)


@pytest.mark.parametrize(
    "name", ["id", "order_id", "patient_age", "persons", "personal", "email", "first_name", "n_patients"]
)
def test_a_name_that_says_something_else_names_no_people(name):
    assert not recognition.names_a_unit(name)
