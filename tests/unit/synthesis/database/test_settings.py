"""Settings of related tables take the terms of a release over, and static columns that were found."""

import copy
import json
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive.spec import Start
from dp_synth_pipeline.relations.structure import PublicTable, Related
from dp_synth_pipeline.synthesis.database import learning
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings

TABLES = {
    "patients": {"source": "patients.parquet", "key": "id"},
    "visits": {"source": "visits.parquet", "parent": {"id": "patients"}, "columns": {"sex": {"kind": "category"}}},
}


def settings(**changes):
    return DatabaseSettings(**{"database": "clinic", "account": "clinic", "epsilon": 1.0, "tables": TABLES, **changes})


def test_the_terms_of_a_release_are_taken_over_and_stay_as_they_are():
    terms = {"tables": settings().terms()["tables"]}
    kept = copy.deepcopy(terms)
    today = settings(tables={**TABLES, "visits": {**TABLES["visits"], "source": "moved.parquet", "max_rows": 3}})
    found = today.with_terms(terms)
    assert (found.tables["visits"].max_rows, found.tables["visits"].source) == (10, "moved.parquet")
    assert terms == kept, "a record that was changed is taken for changed by hand"


def test_static_columns_that_were_found_keep_what_was_declared_of_them_and_change_no_settings():
    asked = settings()
    found = asked.with_found({"visits": {"sex": {"static": True}, "born": {"static": True}}})
    assert found.relations["visits"].static == ("sex", "born")
    assert found.learnt("patients").columns["visits.sex"] == {"kind": "category"}
    assert "static" not in str(found.member("visits").columns)
    assert asked.relations["visits"].static == ()


def test_increasing_columns_that_were_found_are_carried_and_keep_what_was_declared_of_them():
    columns = {**TABLES["visits"].get("columns", {}), "age": {"lower": 0}, "left": {"monotone": "decreasing"}}
    asked = settings(tables={**TABLES, "visits": {**TABLES["visits"], "columns": columns}})
    found = asked.with_found({"visits": {"sex": {"static": True}, "age": {"monotone": "increasing"}}})
    visits = found.relations["visits"]
    assert (visits.static, visits.increasing, visits.decreasing) == (("sex",), ("age",), ("left",))
    assert visits.carries == ("sex", "age", "left")
    assert found.learnt("patients").columns["visits.age"] == {"lower": 0}
    assert "monotone" not in str(found.member("visits").columns)
    assert Related.of(json.loads(json.dumps(asdict(visits)))) == visits
    assert Related.of({"name": "visits", "static": ["sex"]}) == Related("visits", static=("sex",)), (
        "of an earlier version"
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"monotone": "up"}, r"columns.age: monotone: expected increasing, decreasing or false, got 'up'"),
        ({"monotone": True}, "expected increasing, decreasing or false, got True"),
        ({"monotone": "increasing", "static": True}, "it is declared static and monotone; keep one of the two"),
        (
            {"running": 7},
            r"columns.age: running: expected the column .*such as \[deposit, withdrawal\], or false, got 7",
        ),
        ({"running": "paid", "static": True}, "it is declared static and running; keep one of the two"),
        ("number", r"tables.visits.columns.age: expected facts such as \{kind: category\}, or nothing, got 'number'"),
    ],
)
def test_a_direction_and_terms_that_there_are_not_are_refused(facts, said):
    with pytest.raises((InvalidInput, ValidationError), match=said):
        settings(tables={**TABLES, "visits": {**TABLES["visits"], "columns": {"age": facts}}})


def test_a_total_that_runs_is_declared_by_one_column_or_by_two_or_is_none():
    columns = {"a": {"running": "x"}, "b": {"running": ["in", "out"]}, "c": {"running": False}}
    asked = settings(tables={**TABLES, "visits": {**TABLES["visits"], "columns": columns}})
    assert asked.relations["visits"].running == (("a", ("x",)), ("b", ("in", "out")))
    assert not any("running" in str(facts) for facts in asked.member("visits").columns.values())
    with pytest.raises((InvalidInput, ValidationError), match=r"tables.visits.columns.a: running: .*remember out"):
        settings(tables=asked.tables, refresh={"remember": True})


def test_tables_below_the_first_learn_all_layers_since_they_start_from_marginals():
    member = settings(training={"start": "warm_start", "train_only": "heads", "hidden": 8}).learnt("visits")
    release = SimpleNamespace(settings=member, allocation=SimpleNamespace(noise=lambda population: 0.001))
    spec = learning._sized(release, columns=5, population=1000)
    assert (spec.start, spec.train_only, spec.hidden) == (Start.MARGINALS, None, 8)


def test_related_tables_may_remember_in_the_words_of_a_single_table():
    asked = settings(refresh={"remember": True, "epsilon": 0.25})
    assert (asked.whole.refresh.epsilon, asked.member("visits").refresh.remember) == (0.25, True)
    assert all(asked.learnt(name).reuse_profile for name in TABLES)
    assert not settings().member("visits").reuse_profile
    assert asked.code_version() != settings().code_version()


@pytest.mark.parametrize(
    ("changes", "conflict"),
    [
        ({"training": {"method": "autoregressive"}}, "method: autoregressive"),
        ({"training": {"rake": False}}, "rake: false"),
        (
            {
                "tables": {
                    **TABLES,
                    "notes": {**TABLES["visits"], "columns": {"note": {"kind": "text", "max_length": 9}}},
                }
            },
            "kind: text",
        ),
    ],
)
def test_what_a_single_table_s_memory_does_not_go_with_related_ones_does_not_either(changes, conflict):
    with pytest.raises(ValueError, match=f"refresh: remember: it does not go with.*{conflict}"):
        settings(refresh={"remember": True}, **changes)


SHOP = {
    "customers": {"source": "customers.csv", "key": "customer"},
    "orders": {"source": "orders.csv", "parent": {"customer": "customers"}, "refers": {"product": "products"}},
    "products": {"source": "products.csv", "key": "product", "public": {"why": "on our site", "by": "Ann"}},
}


def shop(customers=(), orders=(), products=(), **changes):
    more = {"customers": dict(customers), "orders": dict(orders), "products": dict(products)}
    return settings(tables={name: {**SHOP[name], **facts} for name, facts in more.items()}, **changes)


def test_a_public_table_is_no_table_that_is_learnt_and_its_keys_are_the_categories_of_what_refers_to_it():
    asked = shop()
    assert (list(asked.private_tables), list(asked.public_tables)) == (["customers", "orders"], ["products"])
    assert asked.relations.public == (PublicTable("products", "product"),)
    assert asked.relations["orders"].refers == (("product", "products"),)
    keys = {"kind": "category", "categories": {"from": "products.csv", "column": "product"}}
    assert asked.learnt("orders").columns["product"] == keys
    filtered = shop(products={"filter": "price > 0"}).learnt("orders").columns["product"]["categories"]
    assert filtered == {**keys["categories"], "filter": "price > 0"}
    assert shop(orders={"columns": {"product": {"nulls": "mode"}}}).learnt("orders").columns["product"] == {
        **keys,
        "nulls": "mode",
    }


def test_whether_a_table_is_public_and_what_refers_to_it_are_terms_of_a_release():
    asked = shop()
    assert json.loads(json.dumps(asked.terms()))["tables"]["products"]["public"] == {"why": "on our site", "by": "Ann"}
    kept = asked.with_terms({"tables": asked.terms()["tables"]})
    assert (kept.public_tables, kept.relations.public) == (asked.public_tables, asked.relations.public)
    assert shop(orders={"refers": {}}).code_version() != asked.code_version()
    assert shop(products={"filter": "price > 0"}).code_version() != asked.code_version()


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"columns": {"price": {"lower": 0}}}, "columns: the table is declared public and copied as it is"),
        ({"parent": {"customer": "customers"}}, "parent: .* Leave parent out; or leave public out"),
        ({"order": "price"}, "order: the table is declared public"),
        ({"max_rows": 3}, "max_rows: the table is declared public"),
        ({"keep": "first"}, "keep: the table is declared public"),
        ({"nulls": "mean"}, "nulls: the table is declared public"),
        ({"unique": ["price"]}, "unique: the table is declared public"),
        ({"refers": {"maker": "products"}}, "refers: the table is declared public"),
        ({"key": None}, "public: such a table has a source and a key"),
        ({"source": ""}, "public: such a table has a source and a key"),
        ({"public": {"why": " ", "by": "Ann"}}, "got a blank"),
        ({"public": {"why": "on our site"}}, "public.by"),
        ({"source": "customers.csv"}, "it holds (the )?rows that are to be protected"),
        ({"source": "./orders.csv"}, "it holds (the )?rows that are to be protected"),
    ],
)
def test_what_only_a_table_that_is_learnt_has_or_a_source_that_is_private_too_is_refused_of_a_public_one(facts, said):
    with pytest.raises((InvalidInput, ValidationError), match=said):
        shop(products=facts)


def test_rows_that_are_protected_are_refused_as_a_public_table_even_if_nothing_refers_to_it():
    for refers in ({}, None):
        with pytest.raises(
            (InvalidInput, ValidationError), match=r"tables.products: source: it holds rows that are to be protected"
        ):
            shop(orders={"refers": refers}, products={"source": "./customers.csv"})


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"refers": {"product": "customers"}},
            "'customers' is no table that is declared public; those that are: products",
        ),
        ({"refers": {"product": "goods"}}, "'goods' is no table that is declared public"),
        ({"refers": {"customer": "products"}}, "refers: customer: the column is a key of this table"),
        (
            {"columns": {"product": {"kind": "identifier"}}},
            "tables.orders.columns.product: kind: it holds keys of products",
        ),
        ({"columns": {"product": {"kind": "integer"}}}, "columns.product: kind integer takes no categories"),
        ({"columns": {"product": {"categories": ["a", "b"]}}}, "columns.product: categories: "),
        (
            {"columns": {"product": {"nulls": "constant", "constant": "none"}}},
            "columns.product: nulls: what is not null here",
        ),
        ({"columns": {"product": {"categories": {"from": "other.csv"}}}}, "columns.product: categories: "),
        ({"parent": {"product": "products"}, "refers": None}, "parent: there is no table 'products'"),
    ],
)
def test_a_reference_that_cannot_be_kept_is_refused(facts, said):
    with pytest.raises((InvalidInput, ValidationError), match=said):
        shop(orders=facts)


def test_of_nothing_but_public_tables_none_is_the_root():
    with pytest.raises(
        (InvalidInput, ValidationError), match="the one whose rows are the privacy units; here it is: none"
    ):
        settings(tables={"products": SHOP["products"]})


def test_signal_is_shared_among_learnt_tables_alone():
    assert shop(shares={"customers": 1, "orders": 2}).shares == {"customers": 1, "orders": 2}
    for shares in ({"customers": 1, "orders": 2, "products": 1}, {"customers": 1}, {"customers": 1, "orders": 0}):
        with pytest.raises((InvalidInput, ValidationError), match="a part above 0 for each of customers, orders"):
            shop(shares=shares)


def test_a_rule_that_looks_up_a_public_table_needs_a_column_that_refers_to_it():
    assert shop(rules=["orders.price == products.price"]).rules
    with pytest.raises((InvalidInput, ValidationError), match="no column of orders, or of a table above, refers to"):
        shop(orders={"refers": {}}, rules=["orders.price == products.price"])
