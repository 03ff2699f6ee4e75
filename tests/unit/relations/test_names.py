"""How tables hang together, as the names of their columns tell; where they do not, a person says it."""

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations.names import guess


def test_a_grandchild_belongs_to_the_nearest_table_above_it():
    found = guess(
        {
            "patients": ["patient_id", "sex"],
            "visits": ["visit_id", "patient_id"],
            "prescriptions": ["visit_id", "patient_id", "drug"],
        }
    )
    assert found["prescriptions"] == {"parent": {"visit_id": "visits"}}
    assert found["patients"] == {"key": "patient_id"}


@pytest.mark.parametrize(
    ("table", "key"),
    [("players", "playerID"), ("Companies", "company_id"), ("boxes", "box_id"), ("visit", "visit_key")],
)
def test_a_key_is_called_after_its_table_in_many_ways(table, key):
    assert guess({table: ["x", key], "others": [key, "y"]})[table]["key"] == key


def test_plain_ids_are_referred_to_by_the_table_s_name():
    found = guess({"persons": ["id", "age"], "orders": ["id", "person_id"], "items": ["id", "order_id", "person_id"]})
    assert found["orders"] == {"key": "id", "parent": {"person_id": "persons"}}
    assert found["items"] == {"key": "id", "parent": {"order_id": "orders"}}


def test_several_tables_without_a_parent_are_told_and_nothing_is_guessed():
    with pytest.raises(InvalidInput, match="2 tables have no other's key: shops, people"):
        guess({"shops": ["shop_id"], "people": ["person_id"]})


def test_tables_that_refer_to_each_other_in_a_circle_are_no_guess():
    with pytest.raises(InvalidInput, match="each has another's key"):
        guess({"a": ["a_id", "b_id"], "b": ["b_id", "a_id"]})
