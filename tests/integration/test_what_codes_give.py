"""Of a whole release, codes keep what they give: undeclared, also where they are numbers."""

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.model.marginals import raking
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
