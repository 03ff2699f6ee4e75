"""The check that no identifier was modelled, and the gate on charged figures."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import TableSchema, build
from dp_synth_pipeline.validation import regenerated, verdict

SCHEMA = build(
    {"id": pa.int32(), "email": pa.string(), "age": pa.int64()},
    {"id": {"kind": "identifier"}, "email": {"kind": "email", "locale": "de_DE"}},
)


def profile(*names: str) -> TableProfile:
    cells = (ColumnProfile(n, SCHEMA[n].kind, (), (), ((0, 9),), (1.0,)) for n in names)
    return TableProfile(50, 50, "row", tuple(cells))


def drawn(rows: int = 50, schema: TableSchema = SCHEMA) -> pa.Table:
    made = {c.name: c.kind.generated(c, 0, rows) for c in schema if c.kind.regenerated}
    return pa.table({**made, "age": list(range(rows))})


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_what_follows_from_numbers_of_rows_passes(rows: int) -> None:
    check = regenerated.check_for(SCHEMA, profile("age"))
    assert check.blocking
    assert "id (identifier), email (email)" in check.description
    passed, figures = regenerated.evaluate(check, drawn(rows))
    assert (passed, figures) == (True, {"regenerated": 2, "encoded": [], "from_elsewhere": {}})


def test_a_single_value_from_elsewhere_fails_and_is_counted_not_told() -> None:
    table = drawn()
    emails = table["email"].to_pylist()
    table = table.set_column(1, "email", pa.array(["jane@hospital.net", *emails[1:]]))
    passed, figures = regenerated.evaluate(regenerated.check_for(SCHEMA, profile("age")), table)
    assert (passed, figures["from_elsewhere"]) == (False, {"email": 1})
    assert "jane" not in str(figures)


def test_a_column_of_another_type_or_that_is_missing_fails() -> None:
    check, table = regenerated.check_for(SCHEMA, profile("age")), drawn()
    wide = table.set_column(0, "id", table["id"].cast(pa.int64()))
    assert [regenerated.evaluate(check, t)[0] for t in (wide, table.drop_columns("id"))] == [False, False]


def test_an_encoder_of_a_regenerated_column_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if somebody had made the kind one that is learned."""
    monkeypatch.setattr(type(Kind.EMAIL), "learned", True)
    monkeypatch.setattr(type(Kind.EMAIL), "codec", Kind.CATEGORY.codec, raising=False)
    learned = ColumnProfile("email", Kind.EMAIL, ("jane@hospital.net",), (1.0,))
    check = regenerated.check_for(SCHEMA, TableProfile(50, 50, "row", (learned, *profile("age").columns)))
    passed, figures = regenerated.evaluate(check, drawn())
    assert (passed, figures["encoded"]) == (False, ["email"])


def metrics(lost: float, within: float = 0.001) -> dict[str, float]:
    ways = {"one": 0.99 - lost / 2, "two": 0.97 - lost}
    best = {"accuracy_one_best": 0.99, "accuracy_two_best": 0.97, "accuracy_one_within": within}
    return {f"accuracy_{way}": value for way, value in ways.items()} | best | {"accuracy_two_within": within}


@pytest.mark.parametrize(
    ("lost", "reached"), [(0.0, "excellent"), (0.008, "excellent"), (0.02, "good"), (0.05, "fair"), (0.2, "poor")]
)
def test_charged_figures_are_judged_by_the_reports_own_thresholds(lost: float, reached: str) -> None:
    assert verdict.charged(metrics(lost)) == reached


def test_noise_speaks_against_a_table() -> None:
    assert verdict.charged(metrics(0.02, within=0.02)) == "fair"


@pytest.mark.parametrize(("at_least", "passes"), [("excellent", False), ("good", True), ("fair", True)])
def test_the_gate_lets_through_what_is_as_good_as_asked(at_least: str, passes: bool) -> None:
    check = verdict.check_for(at_least, metrics(0.02))
    passed, figures = verdict.evaluate(check, pa.table({}))
    assert (check.blocking, passed, figures["reached"]) == (True, passes, "good")


def test_figures_that_were_lost_let_nothing_through() -> None:
    passed, figures = verdict.evaluate(verdict.check_for("fair", {}), pa.table({}))
    assert not passed
    assert "lost" in figures["problem"]


def settings(**validation: object) -> ReleaseSettings:
    terms = {"table": "t", "source": "t.csv", "account": "a", "epsilon": 1.0}
    return ReleaseSettings(**terms, validation=validation)  # type: ignore[arg-type]


def test_a_gate_on_the_restricted_report_is_refused_for_a_table_that_is_released() -> None:
    with pytest.raises(ValueError, match=r"restricted report.*report_epsilon"):
        settings(at_least="good")
    assert settings(at_least="good", report_epsilon=0.05).validation.at_least == "good"


def test_without_privacy_the_gate_needs_no_charge() -> None:
    public = {"privacy": "none", "public": {"why": "open", "by": "Eve"}}
    asked = ReleaseSettings(table="t", source="t.csv", validation={"at_least": "good"}, **public)  # type: ignore[arg-type]
    assert asked.validation.at_least == "good"


def test_an_unknown_locale_is_refused_when_settings_load() -> None:
    with pytest.raises((InvalidInput, ValueError), match="de_DE"):
        ReleaseSettings(table="t", source="t.csv", account="a", epsilon=1.0, locale="xx_XX")
