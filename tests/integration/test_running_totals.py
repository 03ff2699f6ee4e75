"""The balance of a synthetic account is that of the row before, plus or minus what its row says was moved."""

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from tests.integration.test_databases import synthesizer

RELATIONS = {
    "patients": {"key": "patient_id"},
    "moves": {"parent": {"patient_id": "patients"}, "order": "day", "max_rows": 9},
}
"""Accounts are called patients, as the ledger's privacy unit is in these tests."""


def statements(accounts: int = 3000) -> pd.DataFrame:
    """Return statements of accounts: what comes in depends on whose it is, and what goes out on what is there."""
    rng = np.random.default_rng(2)
    rows, income = [], np.exp(rng.normal(7, 0.5, accounts))
    for account in range(accounts):
        balance = 0.0
        for place in range(4 + account % 5):
            comes = place == 0 or balance < 50 or rng.random() < 0.35
            amount = round(
                float(income[account] * np.exp(rng.normal(0, 0.3)) if comes else balance * rng.beta(1.2, 3)), 2
            )
            balance = round(balance + (amount if comes else -amount), 2)
            day = pd.Timestamp("2020-01-01") + pd.Timedelta(days=account % 300 + 20 * place)
            rows.append((account, day.date(), "in" if comes else "out", amount, balance))
    return pd.DataFrame(rows, columns=["patient_id", "day", "way", "amount", "balance"])


def changes(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return by how much each balance differs from the one before, and what its row says was moved."""
    before = rows.groupby("patient_id")["balance"].shift(fill_value=0.0)
    return rows["balance"] - before, rows["amount"] * np.where(rows["way"] == "in", 1, -1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dps.SyntheticTables:
    synth, _ = synthesizer(tmp_path_factory.mktemp("bank"), epsilon=4.0, training={})
    accounts = pd.DataFrame({"patient_id": np.arange(3000), "kind": np.arange(3000) % 2})
    return synth.fit({"patients": accounts, "moves": statements()}, relations=RELATIONS)


def test_balances_follow_from_the_row_before_by_the_amount_in_the_direction_that_the_row_says(model):
    rows = model.sample(3000)["moves"]
    change, moved = changes(rows)
    assert ((change.abs() - rows["amount"]).abs() < 0.005).mean() > 0.97, "as the source's all do"
    assert ((change - moved).abs() < 0.005).mean() > 0.9, "which way, the network learnt"


def test_balances_are_as_large_as_real_ones_at_each_place_and_none_is_below_the_least_one(model):
    drawn, real = model.sample(3000)["moves"], statements()
    for rows in (drawn, real):
        rows["place"] = rows.groupby("patient_id").cumcount()
    for place in (0, 3, 6):
        of_place = [rows.loc[rows["place"] == place, "balance"] for rows in (drawn, real)]
        median, expected = (balances.median() for balances in of_place)
        assert abs(np.log(median / expected)) < np.log(1.4), place
    assert (drawn["balance"] < 0).mean() < 0.01


def test_a_saved_model_adds_up_so_too_and_its_card_says_that_it_does(model, tmp_path):
    model.save(tmp_path / "bank.dps")
    rows = dps.load(tmp_path / "bank.dps").sample(500)["moves"]
    change, _ = changes(rows)
    assert ((change.abs() - rows["amount"]).abs() < 0.005).mean() > 0.97
    assert "going on from the row before: balance by amount" in str(model.card().facts.tables)
