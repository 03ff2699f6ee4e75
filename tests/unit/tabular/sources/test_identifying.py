"""The classes of cells that identify somebody, and the kind that a column's noisy counts of them tell."""

from __future__ import annotations

import duckdb
import pytest

from dp_synth_pipeline.tabular.sources.csv import classes

CELLS = {
    "e-mail address": ["a.b@c.de", "x+y@mail.example.com"],
    "card number": ["4111111111111111", "378282246310005"],
    "card number in groups": ["4111 1111 1111 1111", "4111-1111-1111-1111"],
    "IBAN": ["GB29NWBK60161331926819", "DE89 3704 0044 0532 0130 00"],
    "social security number": ["123-45-6789"],
    "UUID": ["f47ac10b-58cc-4372-a567-0e02b2c3d479"],
    "IP address": ["192.168.1.1", "2001:db8::1", "2001:db8:0:0:0:0:0:1"],
    "telephone number": ["555-123-4567", "(555) 123-4567", "+49 30 123456", "030/1234567", "+1-802-580-2161"],
    "web address": ["http://x.org/a", "https://example.com"],
    "whole": ["4111111111111112", "5551234567", "12"],
    "date": ["2024-01-31"],
    "time": ["12:30"],
    "code": ["0045"],
    "text": [
        "hello",
        "jane@x",
        "AB12-CD",
        "100-200-300",
        "978-3-16-148410-0",
        "a b@c.de",
        "US12ABCD12345678",
        "123-45-67890",
    ],
    "number or grouped by points": ["1.234.567"],
}


@pytest.mark.parametrize(("name", "cell"), [(n, c) for n, cells in CELLS.items() for c in cells])
def test_a_cell_falls_into_its_class(name: str, cell: str) -> None:
    with duckdb.connect() as con:
        key = classes.class_of("cell")
        assert con.execute(f"SELECT {key} FROM (SELECT ?::VARCHAR AS cell)", [cell]).fetchone() == (name,)


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        ({"e-mail address": 990.0, "text": 5.0}, "email"),
        ({"e-mail address": 500.0, "text": 500.0}, None),
        ({"telephone number": 700.0, "whole": 300.0}, "phone"),
        ({"telephone number": 300.0, "whole": 700.0}, None),
        ({"card number": 900.0, "empty": 5000.0}, "card"),
        ({"card number": 100.0, "whole": 900.0}, None),
        ({"IP address": 800.0, "number or grouped by points": 200.0}, "ip"),
        ({"web address": 900.0}, None),
        ({}, None),
    ],
)
def test_a_column_is_of_the_kind_of_nearly_all_of_its_cells(seen: dict[str, float], kind: str | None) -> None:
    assert classes.kind_of(seen) == kind


def test_web_addresses_are_a_hint() -> None:
    assert classes.hint_of({"web address": 900.0}) == "url"


def test_what_holds_no_whole_number_takes_no_card_number_and_what_does_takes_it() -> None:
    assert classes.choose({"card number": 100.0, "whole": 900.0}, None, numbers=False).sql == "BIGINT"  # type: ignore[union-attr]
    assert classes.choose({"e-mail address": 900.0}, None, numbers=False).sql == "VARCHAR"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("seen", "sql"),
    [
        ({"whole": 900.0, "code": 9.0}, "VARCHAR"),
        ({"number": 9.0, "code": 900.0}, "VARCHAR"),
        ({"number": 900.0, "code": 9.0}, "DOUBLE"),  # noise, since no code has digits after a point
    ],
)
def test_codes_keep_their_zeros_unless_most_cells_have_digits_after_a_point(seen: dict[str, float], sql: str) -> None:
    chosen = classes.choose(seen, None, numbers=False)
    assert chosen is not None
    assert chosen.sql == sql
