from __future__ import annotations

import pytest

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import Ledger
from tests.unit.ledger.stores import SMALL, ask, sealed

WORD = {"why": "a new month", "who": "A. Officer"}


def test_blocks_need_a_persons_word(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="unit_in_one_block=True"):
        ledger.open_account("b", epsilon=1.0, delta=1e-5, blocks=["jan"])
    with pytest.raises(InvalidInput, match="add-remove"):
        ledger.open_account("b", epsilon=1.0, delta=1e-5, unit_in_one_block=True, relation="replace-one")
    with pytest.raises(InvalidInput, match="list of names"):
        ledger.open_account("b", epsilon=1.0, delta=1e-5, blocks="jan", unit_in_one_block=True)
    with pytest.raises(InvalidInput, match="not opened for blocks"):
        ledger.add_blocks("f", ["jan"], **WORD)
    with pytest.raises(InvalidInput, match="no block 'jan'"):
        ask(ledger, "f", "k", blocks=["jan"])


def test_disjoint_blocks_do_not_add_up(parted: Ledger) -> None:
    for number, block in enumerate(["jan", "jan", "feb", "feb"]):
        ask(parted, "b", str(number), blocks=[block])
    assert parted.balance("b", "jan").cost_left == parted.balance("b", "feb").cost_left == 0
    with pytest.raises(BudgetExceeded, match="for want of room in block jan: it asks"):
        ask(parted, "b", "5", blocks=["jan"], epsilon=0.1)
    parted.verify()


def test_a_release_over_blocks_is_admitted_only_if_all_of_them_admit(parted: Ledger) -> None:
    ask(parted, "b", "0", blocks=["jan"], epsilon=0.6)
    before = sealed(parted)
    with pytest.raises(BudgetExceeded, match="for want of room in block jan: it asks"):
        ask(parted, "b", "1", blocks=["feb", "jan"])
    with pytest.raises(BudgetExceeded, match="for want of room in block jan: it asks"):
        parted.preview("b", epsilon=0.5, delta=1e-6, blocks=["feb", "jan"])
    with pytest.raises(BudgetExceeded, match="for want of room in blocks feb, jan: it asks"):
        ask(parted, "b", "1", blocks=["feb", "jan"], epsilon=1.5)
    assert sealed(parted) == before
    assert parted.balance("b", "feb").epsilon_left == 1.0
    both = ask(parted, "b", "2", blocks=["feb", "jan"], epsilon=0.4)
    assert both.blocks == ("feb", "jan")
    assert [parted.balance("b", b).epsilon_left for b in ("jan", "feb")] == [0.0, 0.6]


def test_a_release_over_all_rows_counts_on_top_of_every_block(parted: Ledger) -> None:
    """A unit of January is in both releases, so its losses add up whichever comes first."""
    ask(parted, "b", "0", blocks=["jan"], epsilon=0.6)
    with pytest.raises(BudgetExceeded):
        ask(parted, "b", "1", epsilon=0.5)
    ask(parted, "b", "2", epsilon=0.4)
    assert parted.balance("b").epsilon_left == parted.balance("b", "jan").epsilon_left == 0.0
    assert parted.balance("b", "feb").epsilon_left == 0.6
    parted.verify()


def test_what_ends_is_given_back_to_the_blocks_that_held_it(parted: Ledger) -> None:
    fresh = parted.balance("b", "jan")
    voided, settled = ask(parted, "b", "0", blocks=["jan"]), ask(parted, "b", "1", blocks=["jan", "feb"])
    parted.void(voided.id, "no")
    parted.start(settled.id, "profile", SMALL)
    charged = parted.settle(settled.id).charged_cost
    for block in ("jan", "feb"):
        assert parted.balance("b", block).cost_spent == charged
        assert parted.balance("b", block).cost_held == 0
    assert parted.balance("b", "jan").cost_left == fresh.cost_left - (charged or 0)
    parted.verify()


def test_a_block_that_is_added_starts_with_what_the_whole_account_spent(parted: Ledger) -> None:
    ask(parted, "b", "0", epsilon=0.3)
    assert parted.add_blocks("b", ["mar", "jan"], **WORD) == ["mar"]
    assert parted.add_blocks("b", ["mar"], **WORD) == []
    assert parted.blocks("b") == ["feb", "jan", "mar"]
    assert parted.balance("b", "mar").epsilon_left == 0.7
    assert parted.capacity("b", epsilon=0.2, delta=1e-7, blocks=["mar"]) == 3
    parted.verify()


def test_a_key_does_not_name_two_sets_of_blocks(parted: Ledger) -> None:
    ask(parted, "b", "0", blocks=["jan"])
    assert ask(parted, "b", "0", blocks=["jan"]).blocks == ("jan",)
    with pytest.raises(InvalidInput, match="blocks"):
        ask(parted, "b", "0", blocks=["feb"])
