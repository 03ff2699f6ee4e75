"""Values of one row of a history that go together do so in drawn rows, at no cost beyond counts that were paid anyway."""

import numpy as np
import pandas as pd

import dp_synth_pipeline as dps
from dp_synth_pipeline.model.histories.pair_weights import FILE, PairWeights
from tests.integration.test_databases import synthesizer

RELATIONS = {
    "patients": {"key": "patient_id"},
    "payments": {"key": "payment_id", "parent": {"patient_id": "patients"}, "order": "paid", "max_rows": 8},
}
KINDS = ["deposit", "withdrawal", "transfer", "order"]


def payments(patients: int) -> dict[str, pd.DataFrame]:
    """Make up payments: three of four have one of two purposes of their kind, and others any purpose, or none."""
    rng, rows = np.random.default_rng(1), patients * 6
    kind, own = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1]), rng.random(rows) < 0.75
    purpose = np.where(own, 2 * kind + rng.integers(0, 2, rows), rng.integers(0, 9, rows))
    table = pd.DataFrame(
        {
            "payment_id": np.arange(rows),
            "patient_id": np.arange(rows) // 6,
            "paid": (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 360, rows), unit="D")).date,
            "kind": np.array(KINDS)[kind],
            "purpose": np.array([*(f"purpose {number}" for number in range(8)), None])[purpose],
        }
    )
    persons = pd.DataFrame({"patient_id": np.arange(patients), "sex": rng.choice(["f", "m"], patients)})
    return {"patients": persons, "payments": table}


def missed(drawn: pd.DataFrame, real: pd.DataFrame) -> float:
    """Return how far the shares of kinds with purposes are from the real ones, 0 to 1."""
    shares = [(t["kind"] + "|" + t["purpose"].fillna("")).value_counts(normalize=True) for t in (drawn, real)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def test_kinds_and_purposes_go_together_also_once_saved_and_without_weights_as_they_were_learnt(tmp_path):
    tables = payments(2000)
    model = synthesizer(tmp_path)[0].fit(tables, relations=RELATIONS)
    assert missed(model.sample(2000)["payments"], tables["payments"]) < 0.12
    (weights,) = (tmp_path / "store" / "releasable").rglob(FILE)
    assert weights.parent.parent.name == "payments", "persons are learnt from pairs of their own"
    model.save(tmp_path / "payments.dps")
    assert missed(dps.load(tmp_path / "payments.dps").sample(2000)["payments"], tables["payments"]) < 0.12
    (model.folder / "payments" / FILE).unlink()
    assert missed(model.sample(2000)["payments"], tables["payments"]) > 0.3, "as an earlier version released it"


def test_rows_of_a_later_release_lean_by_its_own_weights_alone(tmp_path, monkeypatch):
    tables = payments(400)
    synthesizer(tmp_path, epsilon=2.0)[0].fit(tables, relations=RELATIONS)
    (weights,) = (tmp_path / "store" / "releasable").rglob(FILE)
    first = weights.read_bytes()
    synthesizer(tmp_path, epsilon=2.0)[0].fit(tables, relations=RELATIONS)
    assert weights.read_bytes() != first
    monkeypatch.setattr(PairWeights, "begin", lambda *_, **__: PairWeights())
    synthesizer(tmp_path, epsilon=1.0)[0].fit(tables, relations=RELATIONS)
    assert not list((tmp_path / "store" / "releasable/clinic").rglob(f"payments/generator/{FILE}"))
