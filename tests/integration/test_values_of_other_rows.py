"""What a row has of another one, such as what was ordered and is paid, it has in drawn rows as well, by whatever name."""

import dp_synth_pipeline as dps
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.synthesis.store import Store
from tests.integration.shop import RELATIONS, agreeing, shop


def test_rows_have_values_of_their_parents_and_of_rows_beside_as_often_as_real_ones(tmp_path):
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ledger.open_account("shop", epsilon=6, delta=1e-5, unit="customer_id")
    fitter = dps.Synthesizer("shop", 5.0, ledger, table="shop", show=False, store=Store(tmp_path / "store"))
    tables = shop(1500)
    model, real = fitter.fit(tables, relations=RELATIONS), agreeing(tables)
    model.save(tmp_path / "shop.dps")
    for drawn in (model.sample(1500), dps.load(tmp_path / "shop.dps").sample(1500)):
        found = agreeing(drawn)
        assert all(abs(found[name] - real[name]) < 0.15 for name in real), (real, found)
    for table in ("payments", "refunds"):
        assert artifact.load(model.folder / table)[0].proposal.apart, "parts are learnt by how far off they lie"
    told = " ".join(model.card().limits)
    assert "orders: By released names" in told
    for pair in ("ships_to as customers.home", "amount as orders.total", "given_back as orders.total"):
        assert pair in told
