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


def test_a_named_root_needs_no_key_that_is_called_after_it():
    found = guess({"flights": ["tailnum", "time_hour"], "planes": ["tailnum", "seats"]}, "planes")
    assert found == {"flights": {"parent": {"tailnum": "planes"}}, "planes": {"key": "tailnum"}}


def test_below_a_named_root_plain_ids_may_be_those_of_persons():
    found = guess({"people": ["id", "sex"], "visits": ["id", "day"], "labs": ["id", "value"]}, "people")
    assert found == {
        "people": {"key": "id"},
        "visits": {"parent": {"id": "people"}},
        "labs": {"parent": {"id": "people"}},
    }


def test_below_a_named_root_other_tables_keep_their_parents():
    found = guess({"cards": ["no", "kind"], "visits": ["visit_id", "no"], "tests": ["visit_id", "result"]}, "cards")
    assert found["visits"] == {"key": "visit_id", "parent": {"no": "cards"}}
    assert found["tests"] == {"parent": {"visit_id": "visits"}}


def test_a_root_that_is_told_by_names_may_be_named_too():
    tables = {"patients": ["patient_id", "sex"], "visits": ["visit_id", "patient_id"]}
    assert guess(tables, "patients") == guess(tables)


@pytest.mark.parametrize(
    ("root", "said"),
    [
        ("trains", "no such table"),
        ("planes", "more than one: tailnum, year"),
        ("flights", "more than one"),
        ("x", "is none"),
    ],
)
def test_a_root_whose_key_is_not_told_is_refused(root, said):
    tables = {"flights": ["tailnum", "year"], "planes": ["tailnum", "year", "seats"]}
    with pytest.raises(InvalidInput, match=said):
        guess(tables | ({"x": ["colour"]} if root == "x" else {}), root)


def test_a_key_that_others_have_is_not_given_up_for_a_column_that_a_further_table_shares():
    clinic = {
        "patients": ["patient_id", "region"],
        "visits": ["visit_id", "patient_id", "hospital_id"],
        "hospitals": ["hospital_id", "region"],
    }
    with pytest.raises(
        InvalidInput, match=r"its key is patient_id, of which hospitals say nothing.*--public hospitals="
    ):
        guess(clinic, "patients")


SHOP = {
    "customers": ["customer_id", "age"],
    "orders": ["order_id", "customer_id", "product_id", "day"],
    "products": ["product_id", "price"],
}


def test_a_public_table_is_referred_to_and_nobody_s_parent_nor_the_root():
    found = guess(SHOP, public=["products"])
    assert found == {
        "customers": {"key": "customer_id"},
        "orders": {
            "key": "order_id",
            "parent": {"customer_id": "customers"},
            "refers": {"product_id": "products"},
        },
        "products": {"key": "product_id"},
    }
    assert list(found) == list(SHOP)
    assert guess(SHOP, "customers", ["products"]) == found


def test_what_a_public_table_s_columns_are_called_makes_it_hang_on_nothing():
    shop = {**SHOP, "products": ["id", "customer_id", "price"]}
    found = guess(shop, public=["products"])
    assert found["products"] == {"key": "id"}
    assert found["orders"]["refers"] == {"product_id": "products"}


def test_rows_below_others_are_in_the_order_of_their_first_date_that_is_not_of_birth():
    clinic = {
        "patients": ["patient_id", "born", "joined"],
        "visits": ["visit_id", "patient_id", "date_of_birth", "seen", "left"],
        "allergies": ["patient_id", "to"],
    }
    dates = {"patients": ["born", "joined"], "visits": ["date_of_birth", "seen", "left"], "allergies": []}
    found = guess(clinic, dates=dates)
    assert {table: facts.get("order") for table, facts in found.items()} == {
        "patients": None,
        "visits": "seen",
        "allergies": None,
    }
    assert "order" not in guess(clinic, dates={"visits": ["date_of_birth"]})["visits"]
    assert "order" not in guess(clinic)["visits"]


def test_a_public_table_to_which_others_refer_has_its_first_column_as_its_key_if_none_is_called_after_it():
    found = guess({"accounts": ["account_id", "district_id"], "district": ["A1", "A2"]}, public=["district"])
    assert found == {
        "accounts": {"key": "account_id", "refers": {"district_id": "district"}},
        "district": {"key": "A1"},
    }


def test_a_table_that_refers_to_a_public_one_alone_is_a_root_of_its_own():
    with pytest.raises(InvalidInput, match="2 tables have no other's key: customers, reviews"):
        guess({**SHOP, "reviews": ["review_id", "product_id"]}, public=["products"])


def test_where_names_do_not_tell_the_root_it_is_said_how_a_catalogue_is_declared():
    with pytest.raises(InvalidInput, match=r"customers, products.*--public TABLE=REASON"):
        guess(SHOP)
    with pytest.raises(InvalidInput, match="--public products=REASON"):
        guess(SHOP, "customers")


@pytest.mark.parametrize(
    ("name", "said"), [("product", "there is no such table; there are customers"), ("codes", "as codes_id would be")]
)
def test_a_public_table_that_is_not_there_or_whose_key_is_not_told_is_refused(name, said):
    with pytest.raises(InvalidInput, match=f"--public {name}: .*{said}"):
        guess({**SHOP, "codes": ["letter", "text"]}, public=[name])
