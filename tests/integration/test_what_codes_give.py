"""Of a whole release, codes keep what they give: undeclared, also where they are numbers."""

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.model.marginals import dependencies, raking
from dp_synth_pipeline.synthesis.store import Store

ROWS = 12_000


def pupils() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    shares = 1 / np.arange(1, 13)
    town, school = rng.choice(12, ROWS, p=shares / shares.sum()), rng.integers(0, 45, ROWS)
    return pd.DataFrame(
        {
            "town": [f"T{t}" for t in town],
            "sex": rng.choice(["f", "m"], ROWS),
            "county": [f"county {(5 * t) % 12}" for t in town],
            "school": 100 + school,
            "district": [f"district {(7 * s) % 5}" for s in school],
        }
    )


def released(folder) -> dps.SyntheticModel:
    ledger = dps.Ledger.open(f"sqlite:///{folder}/ledger.db")
    ledger.open_account("pupils", epsilon=6, delta=1e-5)
    how = {"table": "pupils", "store": Store(folder / "store"), "show": False, "training": {"max_epochs": 1}}
    return dps.Synthesizer("pupils", 5, ledger, **how).fit(pupils())


def agreement(real: pd.DataFrame, drawn: pd.DataFrame, code: str, given: str) -> float:
    return float((drawn[code].map(real.groupby(code)[given].first()) == drawn[given]).mean())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return released(tmp_path_factory.mktemp("pupils"))


def test_drawn_rows_have_what_their_codes_give(model):
    real, drawn = pupils(), model.sample(8_000)
    assert agreement(real, drawn, "town", "county") > 0.995
    assert agreement(real, drawn, "school", "district") > 0.98


def test_the_card_names_them(model):
    assert model.drawer().facts["together"] == ["town and county", "school and district"]
    (said,) = (sentence for sentence in model.card().limits if "keep them together" in sentence)
    assert said.endswith("town and county; school and district.")


def test_numbers_that_are_names_have_a_code_each(model):
    assert model.drawer().profile["school"].separate
    assert model.drawer().codec.columns[model.drawer().codec.encoded.index("school")].cardinality == 45


def test_drawn_rows_upon_a_condition_have_it_as_well(model):
    drawn = model.sample(400, where="county = 'county 5'")
    assert (drawn["town"] == "T1").mean() > 0.99


def test_a_saved_model_keeps_to_it(model, tmp_path):
    model.save(tmp_path / "pupils.dps")
    assert agreement(pupils(), dps.load(tmp_path / "pupils.dps").sample(4_000), "town", "county") > 0.995


def test_without_what_was_found_rows_go_astray(tmp_path, monkeypatch):
    monkeypatch.setattr(raking, "impossible", lambda measured: np.zeros(measured.layout.cells, bool))
    assert agreement(pupils(), released(tmp_path).sample(8_000), "town", "county") < 0.99


def shipments() -> pd.DataFrame:
    """Return rows of senders, each of whom has several; a half of them are of the product of the row before."""
    rng = np.random.default_rng(7)
    shares = 1 / np.arange(1, 13)
    product = rng.choice(12, ROWS, p=shares / shares.sum())
    rows = pd.DataFrame({"sender": np.sort(rng.integers(0, ROWS // 3, ROWS)), "product": product})
    again = rows["sender"].eq(rows["sender"].shift()) & (rng.random(ROWS) < 0.5)
    rows["product"] = rows["product"].mask(again).ffill().astype(int)
    names = {"product": rows["product"].map("P{}".format), "weight": rng.normal(50, 9, ROWS).round(1)}
    return rows.assign(**names, name=rows["product"].map(lambda p: f"name {(5 * p) % 12}"))


def sent(folder) -> dps.SyntheticTables:
    ledger = dps.Ledger.open(f"sqlite:///{folder}/ledger.db")
    ledger.open_account("senders", epsilon=20, delta=1e-5, unit="sender")
    relations = {"senders": {"key": "sender"}, "shipments": {"parent": {"sender": "senders"}, "max_rows": 8}}
    how = {"table": "senders", "store": Store(folder / "store"), "show": False, "training": {"max_epochs": 1}}
    return dps.Synthesizer("senders", 10, ledger, **how).fit({"shipments": shipments()}, relations=relations)


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    return sent(tmp_path_factory.mktemp("senders"))


def test_rows_of_a_person_have_what_their_codes_give(histories, tmp_path):
    assert agreement(shipments(), histories.sample(3_000)["shipments"], "product", "name") > 0.99
    histories.save(tmp_path / "senders.dps")
    drawn = dps.load(tmp_path / "senders.dps").sample(3_000)["shipments"]
    assert agreement(shipments(), drawn, "product", "name") > 0.99
    assert (
        drawn["product"]
        .value_counts(normalize=True)
        .sub(shipments()["product"].value_counts(normalize=True))
        .abs()
        .sum()
        < 0.2
    )


def test_the_card_of_related_tables_names_them_too(histories):
    (said,) = (sentence for sentence in histories.card().limits if "keep them together" in sentence)
    assert said.startswith("shipments: ")
    assert said.endswith("product and name.")


def test_without_what_was_found_rows_of_a_person_go_astray(tmp_path, monkeypatch):
    monkeypatch.setattr(dependencies, "impossible", lambda measured: np.zeros(measured.layout.cells, bool))
    assert agreement(shipments(), sent(tmp_path).sample(3_000)["shipments"], "product", "name") < 0.98
