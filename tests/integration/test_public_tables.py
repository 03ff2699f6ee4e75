"""Rows refer to public tables: of a whole release, by keys that are in them alone, and the tables come out as they are."""

import json
import zipfile
from pathlib import Path

import dagster as dg
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import dp_synth_pipeline as dps
from dp_synth_pipeline import synthesizer as synthesizing
from dp_synth_pipeline.errors import InvalidInput, UnexpectedFailure
from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings
from dp_synth_pipeline.synthesis.database import learning, stages
from dp_synth_pipeline.synthesis.store import Store
from tests.integration.test_databases import ONCE

PUBLIC = {"why": "the catalogue is on our site", "by": "Ann"}
RELATIONS = {
    "customers": {"key": "customer_id"},
    "orders": {
        "key": "order_id",
        "parent": {"customer_id": "customers"},
        "max_rows": 6,
        "refers": {"product_id": "products"},
    },
    "products": {"key": "product_id", "public": PUBLIC},
}
RULE = "orders.price == products.price"
SOLD, KEYS = 12, 20
"""Products that real rows are of, and those that there are."""


def products(stored="int64") -> pd.DataFrame:
    """Products in no order, the last eight of which nobody bought."""
    keys = 100 + np.arange(KEYS)
    table = pd.DataFrame({"product_id": keys, "price": 5 + 3 * np.arange(KEYS), "name": [f"thing {k}" for k in keys]})
    return table.sample(frac=1, random_state=4).reset_index(drop=True).astype({"product_id": stored})


def tables(customers=700, unknown=0.0, missing=0.0) -> dict[str, pd.DataFrame]:
    """Customers with one to four orders; some orders are of a product that is in no table, or of none that is known."""
    rng = np.random.default_rng(6)
    whose = np.repeat(np.arange(customers), 1 + np.arange(customers) % 4)
    bought = 100 + rng.integers(0, SOLD, len(whose))
    orders = pd.DataFrame({"order_id": np.arange(len(whose)), "customer_id": whose, "product_id": bought})
    orders["price"] = 5 + 3 * (bought - 100)
    orders["n"] = rng.integers(1, 5, len(whose))
    if unknown:
        orders.loc[rng.random(len(whose)) < unknown, "product_id"] = 999
    if missing:
        orders["product_id"] = orders["product_id"].mask(rng.random(len(whose)) < missing).astype("Int64")
    sex = rng.choice(["F", "M"], customers)
    return {"customers": pd.DataFrame({"customer_id": np.arange(customers), "sex": sex}), "orders": orders}


def synthesizer(folder: Path, **changes):
    ledger = dps.Ledger.open(f"sqlite:///{folder}/ledger.db")
    ledger.open_account("shop", epsilon=6, delta=1e-5, unit="customer_id")
    facts = {"epsilon": 4.0, "table": "shop", "training": ONCE, "show": False, **changes}
    return dps.Synthesizer("shop", ledger=ledger, store=Store(folder / "store"), **facts), ledger


def fitted(folder: Path, data: dict, relations=RELATIONS, **changes) -> dps.SyntheticTables:
    return synthesizer(folder, **changes)[0].fit(data, relations=relations)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    data = tables(unknown=0.1) | {"products": products()}
    return fitted(tmp_path_factory.mktemp("shop"), data, rules=[RULE])


def test_the_public_table_comes_out_as_it_is_whoever_is_drawn(shop):
    for persons in (1, 300):
        drawn = shop.sample(persons)
        assert list(drawn) == ["products", "customers", "orders"]
        pd.testing.assert_frame_equal(drawn["products"], products())


def test_drawn_rows_refer_to_public_rows_alone_and_one_of_no_such_row_does_not_come_out(shop):
    drawn = shop.sample(1500)["orders"]
    assert drawn["product_id"].dtype == "int64"
    assert set(drawn["product_id"]) <= set(products()["product_id"])
    assert drawn["product_id"].between(100, 100 + SOLD - 1).mean() > 0.7
    assert drawn["product_id"].nunique() >= SOLD
    assert 999 not in set(drawn["product_id"])


def test_a_rule_that_looks_up_the_public_table_holds_in_every_row(shop):
    drawn = shop.sample(1000)
    joined = drawn["orders"].merge(drawn["products"], on="product_id", suffixes=("", " of it"))
    assert len(joined) == len(drawn["orders"]) > 1500
    assert (joined["price"] == joined["price of it"]).all()


def test_a_condition_on_persons_leaves_the_public_table_whole(shop):
    drawn = shop.sample(100, where="sex = 'F'")
    assert set(drawn["customers"]["sex"]) == {"F"}
    assert len(drawn["products"]) == KEYS
    with pytest.raises(InvalidInput):
        shop.sample(10, where="products.price > 9")


def test_a_saved_model_holds_the_public_rows_and_no_real_ones(shop, tmp_path):
    shop.save(tmp_path / "shop.dps")
    again = dps.load(tmp_path / "shop.dps").sample(200, seed=5)
    pd.testing.assert_frame_equal(again["products"], products())
    pd.testing.assert_frame_equal(again["orders"], shop.sample(200, seed=5)["orders"])
    assert set(again["orders"]["product_id"]) <= set(products()["product_id"])
    facts = json.loads((shop.folder / "database.json").read_text())
    assert facts["public"] == [{"name": "products", "key": "product_id"}]
    with zipfile.ZipFile(tmp_path / "shop.dps") as held:
        assert [name for name in held.namelist() if name.endswith(".parquet")] == ["products/public.parquet"]
        assert not [name for name in held.namelist() if name.endswith(".json") and b'"999"' in held.read(name)]


def test_the_card_says_that_the_table_was_copied_and_whose_keys_a_column_holds(shop):
    card = shop.card().facts
    (told,) = (table for table in card.tables if table["name"] == "products")
    assert (told["rows"], told["columns"]) == (KEYS, 3)
    assert told["belongs"] == "nobody: copied as it is, since it is public: the catalogue is on our site, says Ann"
    (column,) = (c for c in card.public if c["name"] == "orders.product_id")
    assert column["declared"]["categories"] == "the keys of products"
    assert "999" not in json.dumps(card.public)


def test_a_model_of_a_version_that_knew_of_no_public_tables_still_draws(tmp_path):
    relations = {"customers": RELATIONS["customers"], "orders": {**RELATIONS["orders"], "refers": None}}
    model = fitted(tmp_path, tables(300), relations)
    path = model.folder / "database.json"
    facts = json.loads(path.read_text())
    del facts["public"]
    for table in facts["tables"]:
        del table["refers"]
    path.write_text(json.dumps(facts))
    assert set(model.sample(20)) == {"customers", "orders"}
    model.save(tmp_path / "old.dps")
    assert set(dps.load(tmp_path / "old.dps").sample(20)) == {"customers", "orders"}


@pytest.mark.parametrize("stored", ["int64", "str"])
def test_a_reference_may_be_null_and_keys_may_be_numbers_or_text(tmp_path, stored):
    data = tables(500, missing=0.3) | {"products": products(stored)}
    data["orders"]["product_id"] = (
        data["orders"]["product_id"] if stored == "int64" else data["orders"]["product_id"].astype("string")
    )
    model = fitted(tmp_path, data, rules=[RULE])
    drawn = model.sample(900)
    keys = drawn["orders"]["product_id"]
    assert 0.2 < keys.isna().mean() < 0.4
    assert {str(k).removesuffix(".0") for k in keys.dropna()} <= set(products()["product_id"].astype(str))
    assert list(drawn["products"]["product_id"].astype(str)) == list(products()["product_id"].astype(str))
    joined = (
        drawn["orders"].dropna(subset="product_id").merge(drawn["products"], on="product_id", suffixes=("", " of it"))
    )
    assert len(joined) == keys.notna().sum()
    assert (joined["price"] == joined["price of it"]).all()
    assert drawn["orders"]["price"].notna().all()


def test_numbers_that_pandas_keeps_as_floats_because_some_are_missing_refer_to_whole_ones(tmp_path):
    data = tables(500, missing=0.2) | {"products": products()}
    data["orders"]["product_id"] = data["orders"]["product_id"].astype("float64")
    drawn = fitted(tmp_path, data).sample(600)
    keys = drawn["orders"]["product_id"]
    assert 0.1 < keys.isna().mean() < 0.3
    assert set(keys.dropna()) <= set(products()["product_id"])
    assert list(drawn["products"]["product_id"]) == list(products()["product_id"])


@pytest.mark.parametrize("kept", ["product_id < 106", "price < 23"])
def test_a_filtered_public_table_s_other_keys_are_drawn_by_nobody(tmp_path, kept):
    data = tables(500) | {"products": products()}
    relations = {**RELATIONS, "products": {**RELATIONS["products"], "filter": kept}}
    drawn = fitted(tmp_path, data, relations).sample(600)
    assert sorted(drawn["products"]["product_id"]) == [*range(100, 106)]
    assert set(drawn["orders"]["product_id"].dropna()) <= set(range(100, 106))


def test_columns_of_several_tables_refer_to_one_and_what_the_root_refers_to_is_looked_up_below(tmp_path):
    data = tables(500) | {"products": products(), "countries": pd.DataFrame({"code": ["at", "de"], "fee": [3, 7]})}
    data["customers"]["country"] = np.where(np.arange(500) % 3, "at", "de")
    data["customers"]["favourite"] = 100 + np.arange(500) % SOLD
    data["orders"]["fee"] = (
        data["customers"]["country"].map({"at": 3, "de": 7}).to_numpy()[data["orders"]["customer_id"]]
    )
    relations = {
        **RELATIONS,
        "customers": {"key": "customer_id", "refers": {"country": "countries", "favourite": "products"}},
        "countries": {"key": "code", "public": PUBLIC},
    }
    drawn = fitted(tmp_path, data, relations, rules=["orders.fee == countries.fee"]).sample(500)
    assert set(drawn["customers"]["favourite"]) <= set(products()["product_id"])
    country = drawn["customers"].set_index("customer_id")["country"]
    assert set(country) == {"at", "de"}
    assert (drawn["orders"]["fee"] == drawn["orders"]["customer_id"].map(country).map({"at": 3, "de": 7})).all()


def test_what_refers_may_be_the_same_in_all_rows_of_a_person(tmp_path):
    data = tables(500) | {"products": products()}
    data["orders"]["product_id"] = 100 + data["orders"]["customer_id"] % SOLD
    orders = {**RELATIONS["orders"], "columns": {"product_id": {"static": True}}}
    drawn = fitted(tmp_path, data, {**RELATIONS, "orders": orders}).sample(400)["orders"]
    assert set(drawn["product_id"]) <= set(products()["product_id"])
    assert drawn.groupby("customer_id")["product_id"].nunique().max() == 1


def test_once_settled_the_public_rows_lie_where_they_may_leave(tmp_path, monkeypatch):
    kept, packed = [], synthesizing.packed
    monkeypatch.setattr(synthesizing, "packed", lambda release: kept.append(release.state.public) or packed(release))
    fitted(tmp_path, tables(300) | {"products": products()})
    assert kept == [{"products": tmp_path / "store/releasable/shop/products/public.parquet"}]
    assert [p.name for p in (tmp_path / "store").rglob("*public.parquet")] in ([], ["public.parquet"])


def test_a_fit_that_stopped_before_its_settlement_goes_on_with_the_public_rows_that_it_copied(tmp_path, monkeypatch):
    fitter, ledger = synthesizer(tmp_path, rules=[RULE])
    data = tables(300) | {"products": products()}
    with monkeypatch.context() as patch:
        patch.setattr(learning, "learn", lambda *given: 1 / 0)
        with pytest.raises(UnexpectedFailure):
            fitter.fit(data, relations=RELATIONS)
    (release,) = ledger.releases("shop")
    drawn = fitter.fit(data, relations=RELATIONS, resume=release.id).sample(50)
    pd.testing.assert_frame_equal(drawn["products"], products())


def test_a_fit_that_stopped_amid_its_settlement_goes_on(tmp_path, monkeypatch):
    fitter, ledger = synthesizer(tmp_path)
    data = tables(300) | {"products": products()}
    with monkeypatch.context() as patch:
        patch.setattr(stages, "described", lambda release: 1 / 0)
        with pytest.raises(UnexpectedFailure):
            fitter.fit(data, relations=RELATIONS)
    (release,) = ledger.releases("shop")
    drawn = fitter.fit(data, relations=RELATIONS, resume=release.id).sample(50)
    pd.testing.assert_frame_equal(drawn["products"], products())


@pytest.mark.parametrize(
    ("orders", "public", "words"),
    [
        (
            {"refers": None},
            products(),
            r"tables.orders: refers: 'product_id' is called as the key of products is.*refers: {product_id: products}; or "
            r"refers: {} if",
        ),
        ({"refers": {"product": "products"}}, products(), "no column 'product'; .* Did you mean product_id?"),
        ({}, products().assign(product_id=1), "tables.products: key: 1 in 'product_id' names several rows"),
        (
            {},
            products().rename(columns={"product_id": "id"}),
            "tables.orders: .*has no column 'product_id'; it has: id, price, name",
        ),
        (
            {},
            products("str").assign(product_id=[f"p{n}" for n in range(KEYS)]),
            "'p0' is not a value of storage type int64",
        ),
    ],
)
def test_a_mistake_about_them_is_told_before_a_private_row_is_read_or_anything_spent(
    tmp_path, monkeypatch, orders, public, words
):
    monkeypatch.setattr(stages.Ingestion, "_related", lambda *given: pytest.fail("a private row is read"))
    fitter, ledger = synthesizer(tmp_path)
    data = tables(50) | {"products": public}
    with pytest.raises(InvalidInput, match=words):
        fitter.fit(data, relations={**RELATIONS, "orders": {**RELATIONS["orders"], **orders}})
    assert [release.state for release in ledger.releases("shop")] == ["voided"]
    assert ledger.entries("shop") == []
    assert list((tmp_path / "store").rglob("*public.parquet")) == []


def test_a_column_that_is_called_as_a_public_key_and_holds_none_is_learnt_as_any_other(tmp_path):
    relations = {**RELATIONS, "orders": {**RELATIONS["orders"], "refers": {}}}
    drawn = fitted(tmp_path, tables(300) | {"products": products()}, relations).sample(100)
    assert set(drawn) == {"products", "customers", "orders"}


def test_columns_that_are_stored_unlike_each_other_and_refer_to_one_table_are_refused(tmp_path):
    """A database has no foreign key from text to a number, which would be told after everything is paid for."""
    data = tables(50) | {"products": products()}
    data["customers"]["favourite"] = "100"
    relations = {**RELATIONS, "customers": {"key": "customer_id", "refers": {"favourite": "products"}}}
    fitter, ledger = synthesizer(tmp_path)
    with pytest.raises(
        InvalidInput,
        match=r"tables.products: key: the columns that refer to it hold customers.favourite string, orders.product_id int64",
    ):
        fitter.fit(data, relations=relations)
    assert ledger.entries("shop") == []


@pytest.fixture
def folder(shell):
    data = shell.folder / "data"
    data.mkdir()
    for name, table in tables(500).items():
        table.to_parquet(data / f"{name}.parquet", index=False)
    products().to_csv(data / "products.csv", index=False)
    return data


WHY = "products=the catalogue is on our site"


def test_a_folder_with_a_public_table_becomes_tables_whose_keys_a_database_declares(shell, folder):
    done = shell("ledger", "open", "shop", "--epsilon", 6, "--delta", 1e-5, "--unit", "customer_id")
    assert done.code == 0, done.text
    quick = [part for name, value in ONCE.items() for part in ("--set", f"training.{name}={value}")]
    out = f"duckdb:///{shell.folder}/w.duckdb?table=shop.{{table}}"
    named = ("--root", "customers", "--public", WHY, "--account", "shop")
    done = shell("synthesize-database", "data", "--out", out, "--epsilon", 4, *named, *quick, "--json")
    assert done.code == 0, done.text
    facts = json.loads(done.out)
    assert facts["checks"]["failed"] == 0
    with duckdb.connect(str(shell.folder / "w.duckdb"), read_only=True) as con:
        assert con.sql("SELECT * FROM shop.products").df()["name"].tolist() == products()["name"].tolist()
        dangling = "SELECT count(*) FROM shop.orders ANTI JOIN shop.products USING (product_id)"
        assert con.sql(dangling).fetchall() == [(0,)]
        keys = "SELECT count(*) FROM duckdb_constraints() WHERE constraint_type = 'FOREIGN KEY'"
        assert con.sql(keys).fetchall() == [(2,)]
    entries = len(shell.ledger().entries("shop"))
    for _ in range(2):  # the second takes the place of the first
        drawn = shell("sample", "data", "--rows", 20, "--out", "more/")
        assert drawn.code == 0, drawn.text
    assert {p.name for p in (shell.folder / "more").iterdir()} == {
        f"{name}.parquet" for name in ("customers", "orders", "products")
    }
    more = {p.stem: pq.read_table(p) for p in (shell.folder / "more").iterdir()}
    assert set(more["orders"]["product_id"].to_pylist()) <= set(more["products"]["product_id"].to_pylist())
    assert more["products"]["product_id"].type == more["orders"]["product_id"].type == pa.int64()
    assert len(shell.ledger().entries("shop")) == entries


def test_what_is_guessed_of_a_folder_with_a_public_table_is_said_and_written(shell, folder):
    done = shell("synthesize-database", "data", "--public", WHY, "--write", "guess.yaml")
    assert done.code == 0, done.text
    said = " ".join(done.text.split())
    assert "products: key product_id, public" in said
    assert (
        "orders: key order_id, belongs to customers by customer_id, in no order, refers to products by product_id"
        in said
    )
    guess = yaml.safe_load((shell.folder / "guess.yaml").read_text())["tables"]
    assert guess["orders"]["refers"] == {"product_id": "products"}
    assert guess["products"]["public"]["why"] == "the catalogue is on our site"
    assert guess["products"]["public"]["by"]
    assert "max_rows" not in guess["products"]


@pytest.mark.parametrize("told", ["products", "products=", "products= "])
def test_a_table_is_not_public_for_no_reason(shell, folder, told):
    refused = shell("synthesize-database", "data", "--public", told, "--write", "guess.yaml")
    assert (refused.code, "say why everybody may see it" in " ".join(refused.text.split())) == (2, True)
    unknown = shell("synthesize-database", "data", "--public", "goods=on our site", "--write", "guess.yaml")
    assert (unknown.code, "there is no such table" in unknown.text) == (2, True)


def test_as_assets_the_public_table_is_published_with_the_others_and_has_no_stages_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    for name, table in (tables(400) | {"products": products()}).items():
        table.to_parquet(tmp_path / f"{name}.parquet", index=False)
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ledger.open_account("shop", epsilon=6, delta=1e-5, unit="customer_id")
    sourced = {name: {**facts, "source": str(tmp_path / f"{name}.parquet")} for name, facts in RELATIONS.items()}
    asked = {
        "database": "shop",
        "account": "shop",
        "epsilon": 4.0,
        "tables": sourced,
        "rules": [RULE],
        "training": ONCE,
    }
    definitions = build_defs([RelatedTablesSettings(**asked)])
    outcome = in_process.refresh(definitions, "shop")
    assert outcome.exit_code == 0, outcome.message
    keys = {tuple(k.path) for k in definitions.resolve_job_def("shop_refresh").asset_layer.selected_asset_keys}
    assert {key for key in keys if "products" in key} == {("shop", "products", "published")}
    with dg.DagsterInstance.get() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(["shop", "products", "published"]))
    facts = event.asset_materialization.metadata
    assert (facts["dagster/row_count"].value, facts["public"].value) == (KEYS, True)
    checks = json.loads((tmp_path / "store/releasable/shop/orders/checks.json").read_text())
    found = {check["name"]: check["passed"] for check in checks}
    assert found["rows_refer_to_public_rows"]
    assert found["rule_1__orders_price_eq_products_price"]
    with duckdb.connect(str(tmp_path / "warehouse.duckdb"), read_only=True) as con:
        assert con.sql("FROM shop.products").df()["name"].tolist() == products()["name"].tolist()
        keys = "SELECT count(*) FROM duckdb_constraints() WHERE constraint_type = 'FOREIGN KEY'"
        assert con.sql(keys).fetchall() == [(2,)]


@pytest.mark.parametrize("option", [("--root", "customers"), ("--public", WHY)])
def test_what_is_said_of_a_folder_is_refused_beside_a_file(shell, folder, option):
    written = {n: {**facts, "source": f"data/{n}.parquet"} for n, facts in RELATIONS.items()}
    (shell.folder / "shop.yaml").write_text(yaml.safe_dump({"tables": written}))
    refused = shell("synthesize-database", "shop.yaml", "--epsilon", 1, "--out", "x", *option)
    assert (refused.code, "is said of a folder" in refused.text) == (2, True)


def regional(customers=2500) -> dict[str, pd.DataFrame]:
    """Customers of four regions, who nearly always order in a shop of their own; there are forty shops."""
    rng = np.random.default_rng(8)
    regions = np.array(["north", "south", "east", "west"])
    shops = pd.DataFrame({"shop_id": [f"s{i:02d}" for i in range(40)], "region": regions[rng.integers(0, 4, 40)]})
    home = rng.choice(regions, customers)
    whose = np.repeat(np.arange(customers), 1 + np.arange(customers) % 3)
    of_region = {region: shops["shop_id"][shops["region"] == region].to_numpy() for region in regions}
    own = [rng.choice(of_region[region]) for region in home[whose]]
    shop = np.where(rng.random(len(whose)) < 0.9, own, rng.choice(shops["shop_id"], len(whose)))
    people = pd.DataFrame({"customer_id": np.arange(customers), "home": home})
    orders = pd.DataFrame({"customer_id": whose, "shop_id": shop, "n": rng.integers(1, 5, len(whose))})
    return {"customers": people, "orders": orders, "shops": shops}


def test_what_a_public_table_says_of_its_keys_tells_who_refers_to_which(tmp_path):
    relations = {
        "customers": {"key": "customer_id"},
        "orders": {"parent": {"customer_id": "customers"}, "refers": {"shop_id": "shops"}, "max_rows": 3},
        "shops": {"key": "shop_id", "public": PUBLIC},
    }
    data = regional()
    model = fitted(tmp_path, data, relations, epsilon=5, training={"hidden": 16, "max_epochs": 12})
    model.save(tmp_path / "shop.dps")
    assert "shop_id: region and" not in json.dumps(model.card().facts.limits), "no noisy count tells that, but the list"
    for drawn in (model.sample(1500), dps.load(tmp_path / "shop.dps").sample(1500)):
        assert list(drawn["orders"].columns) == list(data["orders"].columns)
        assert drawn["orders"]["shop_id"].isin(data["shops"]["shop_id"]).all()
        joined = drawn["orders"].merge(drawn["customers"], on="customer_id").merge(drawn["shops"], on="shop_id")
        assert (joined["home"] == joined["region"]).mean() > 0.8, "without groups, some 0.6 do"
        assert drawn["orders"]["shop_id"].nunique() == 40
