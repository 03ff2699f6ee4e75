"""Mistakes in a table's YAML are named by line, with what was expected, and no password is quoted."""

from __future__ import annotations

import re

import pytest
import yaml

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.component import TEMPLATE, SyntheticTable

GOOD = {"source": "data/p.parquet", "account": "p", "epsilon": "1.0"}


def resolved(**changes: str) -> SyntheticTable:
    """Resolve a table's attributes, one a line."""
    return SyntheticTable.resolve_from_yaml("\n".join(f"{k}: {v}" for k, v in {**GOOD, **changes}.items()))


def test_a_table_without_mistakes_is_resolved() -> None:
    assert resolved(schedule="0 3 * * 1").epsilon == 1.0


@pytest.mark.parametrize(
    ("changes", "line", "said"),
    [
        ({"epsilon": "much"}, 3, "epsilon: .*number.*got 'much'"),
        ({"epsilon": "-1"}, 3, "epsilon"),
        ({"nulls": "delete"}, 4, "nulls: .*'keep'.*got 'delete'"),
        ({"schedule": "every monday"}, 4, "schedule: expected a cron"),
        ({"training": "{settings: {learningrate: 3}}"}, 4, "training: unknown setting 'learningrate'; known: "),
        ({"target": "data/p.parquet"}, 4, "target: it is the source itself"),
    ],
)
def test_a_mistake_is_named_by_line(changes: dict[str, str], line: int, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        resolved(**changes)
    assert f":{line}: " in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(InvalidInput, match="2 mistakes") as caught:
        resolved(epsilon="much", nulls="delete")
    assert "epsilon" in str(caught.value)
    assert "nulls" in str(caught.value)


def test_a_password_is_not_quoted() -> None:
    with pytest.raises(InvalidInput) as caught:
        resolved(
            source="'postgresql://ana:hunter2@host/db?table=t'", target="'postgresql://ana:hunter2@host/db?table=t'"
        )
    assert "hunter2" not in str(caught.value)


def test_an_unknown_field_is_named_by_line() -> None:
    with pytest.raises(Exception, match="trainin"):
        resolved(trainin="{purpose: testing}")


def test_what_the_scaffolder_writes_works_as_it_stands_and_with_each_line_taken_in() -> None:
    text = TEMPLATE.format(name="visits")
    table = SyntheticTable.resolve_from_yaml(yaml.safe_dump(yaml.safe_load(text)["attributes"]))
    assert table.account == "visits"
    lines = [re.sub(r"^  # (?!--)", "  ", line) for line in text.splitlines()]
    full = yaml.safe_load("\n".join(lines))["attributes"]
    assert {"unit", "columns", "partitions", "compute", "validation", "schedule"} <= set(full)
    full.pop("partitions")  # a person with rows on several days: `units_span` must be stated
    assert SyntheticTable.resolve_from_yaml(yaml.safe_dump(full)).validation.rules == ["start <= end"]
