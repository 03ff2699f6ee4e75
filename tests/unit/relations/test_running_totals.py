"""A running total is told by noisy counts of persons, by its name, and follows from the row before as it is computed."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.relations import running_totals, static_columns
from dp_synth_pipeline.relations.running_totals import BACK, FORTH, directions
from dp_synth_pipeline.relations.static_columns import Candidates, StaticPlan
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular.schema import build
from tests.unit.relations.test_relating import related

ROWS = Related("moves", "move", "accounts", "account", "day", max_rows=9)
RELATIONS = Relations([Related("accounts", key="account"), ROWS])
NUMBERS = {"balance": pa.float64(), "amount": pa.float64(), "paid_in": pa.float64(), "paid_out": pa.float64()}
SCHEMA = build({"account": pa.int64(), "move": pa.int64(), "day": pa.date32(), **NUMBERS, "to": pa.string()}, {})


def statements(accounts=300, wrong=0, rows=5):
    """Return statements of so many accounts; the balances of `wrong` of them follow from no amount."""
    rng = np.random.default_rng(3)
    account = np.repeat(np.arange(accounts), rows)
    amount = rng.integers(1, 100_000, len(account)) / 100
    sign = np.where(rng.random(len(account)) < 0.5, 1, -1)
    balance = pd.Series(sign * amount).groupby(account).cumsum().round(2)
    balance += np.where(account < wrong, rng.integers(1, 99, len(account)), 0)
    moves = {"move": np.arange(len(account)), "account": account, "amount": amount, "balance": balance}
    moves["day"] = (pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(account)) % rows, "D")).date
    moves |= {"paid_in": np.where(sign > 0, amount, np.nan), "paid_out": np.where(sign < 0, amount, np.nan)}
    return {"accounts": pd.DataFrame({"account": np.arange(accounts)}).assign(kind="a"), "moves": pd.DataFrame(moves)}


def test_a_total_follows_forth_or_back_from_the_last_one_that_is_known():
    nan = np.nan
    total = np.array([5.0, 3.0, nan, 4.0, 7.0, 1.0, 1.0])
    amount = np.array([5.0, 2.0, 1.0, 1.0, nan, 1.0, 0.0])
    parent = np.array([0, 0, 0, 0, 0, 1, 1])
    assert directions(total, [amount], parent).tolist() == [FORTH, BACK, 0, FORTH, 0, FORTH, 0]
    paid_in, paid_out = np.array([5.0, nan, nan, 1.0, 3.0, nan, nan]), np.array([nan, 2.0, nan, nan, nan, nan, nan])
    assert directions(total, [paid_in, paid_out], parent).tolist() == [FORTH, FORTH, 0, FORTH, FORTH, 0, 0]
    assert directions(np.zeros(0), [np.zeros(0)], np.zeros(0, int)).tolist() == []


@given(st.lists(st.tuples(st.integers(1, 10**8), st.booleans()), max_size=30))
def test_whatever_is_added_up_in_doubles_is_seen_to_follow(moves):
    amount = np.array([cents / 100 for cents, _ in moves])
    sign = np.array([1 if forth else -1 for _, forth in moves], int)
    total = np.round(np.cumsum(sign * amount), 2)
    found = directions(total, [amount], np.zeros(len(moves), int))
    assert found.tolist() == np.where(sign > 0, FORTH, BACK).tolist()


@given(st.lists(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 9)), max_size=5), max_size=4))
def test_how_totals_follow_is_of_a_parent_s_own_rows_alone(accounts):
    cells = [np.array(rows, float).reshape(-1, 2).T for rows in accounts]
    parent = np.repeat(np.arange(len(cells)), [len(total) for total, _ in cells])
    total, amount = np.concatenate([np.zeros((2, 0)), *cells], 1)
    alone = [directions(own, [moved], np.zeros(len(own), int)) for own, moved in cells]
    assert directions(total, [amount], parent).tolist() == np.concatenate([np.zeros(0), *alone]).tolist()


def test_numbers_as_large_as_doubles_hold_are_told_by_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for terms in ([np.array([1.7e308, 1.7e308, np.nan])], [np.full(3, 1.7e308), np.full(3, -1.7e308)]):
            directions(np.array([1e308, -1.7e308, np.nan]), terms, np.zeros(3, int))


def counted(folder, some, totals, scale=1.0):
    rows = related(folder, some, RELATIONS)
    plan = StaticPlan({"moves": Candidates(("balance",), ("balance",), totals=totals)}, scale)
    return static_columns.measure(rows, plan, Odometer(plan.events))["moves"]


AMOUNT, PAIR = ("balance", ("amount",)), ("balance", ("paid_in", "paid_out"))


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("told", [AMOUNT, PAIR])
def test_noisy_counts_tell_a_total_that_follows_for_most_persons(tmp_path, told, as_text):
    some = statements()
    if as_text:
        some["moves"] = some["moves"].astype(dict.fromkeys(NUMBERS, str)).replace("nan", None)
    found = counted(tmp_path, some, (told, ("amount", ("balance",))))
    assert found.running == (told,)
    assert found.facts == {"balance": {"running": list(told[1])}}


def test_the_terms_by_which_most_totals_follow_are_taken(tmp_path):
    some = statements()
    some["moves"].loc[some["moves"]["account"] < 100, "paid_in"] = 7.0
    assert counted(tmp_path, some, (PAIR, AMOUNT)).running == (AMOUNT,)


@pytest.mark.parametrize(("wrong", "found"), [(40, (AMOUNT,)), (240, ())])
def test_a_total_that_follows_for_few_persons_is_none(tmp_path, wrong, found):
    assert counted(tmp_path, statements(wrong=wrong), (AMOUNT,)).running == found


def test_under_noise_that_hides_the_counts_no_total_is_found(tmp_path):
    found = [counted(tmp_path / str(i), statements(30), (AMOUNT,), scale=60.0).running for i in range(20)]
    assert found.count(()) >= 14, "15 persons more than half are a quarter of a deviation: 1 in 25 is found"


def test_a_total_that_only_grows_is_one_that_runs_and_not_one_that_never_falls(tmp_path):
    some = statements()
    some["moves"]["balance"] = some["moves"]["amount"].groupby(some["moves"]["account"]).cumsum().round(2)
    found = counted(tmp_path, some, (AMOUNT,))
    assert (found.running, found.increasing) == ((AMOUNT,), ())


def test_one_person_more_moves_the_count_by_one_at_most(tmp_path):
    first, more = statements(50), statements(51)
    counts = [
        static_columns._counts(
            related(tmp_path / name, some, RELATIONS)["moves"], Candidates((), totals=(AMOUNT, PAIR))
        )
        for name, some in (("first", first), ("more", more))
    ]
    assert np.subtract(*reversed(counts)).tolist() == [1, 1, 1]
    assert counts[0].tolist() == [50, 50, 50]


def test_what_may_be_a_total_is_called_so_and_goes_on_by_any_other_number():
    found = [*running_totals.candidates(ROWS, SCHEMA, ())]
    assert found == [("balance", (name,)) for name in ("amount", "paid_in", "paid_out")] + [PAIR]
    assert [*running_totals.candidates(ROWS, SCHEMA, ("balance",))] == [], "a person said what it is"
    assert [*running_totals.candidates(replace(ROWS, order=None), SCHEMA, ())] == [], "nothing goes on without an order"
    renamed = build({"account": pa.int64(), "day": pa.date32(), "size": pa.float64(), "amount": pa.float64()}, {})
    assert [*running_totals.candidates(ROWS, renamed, ())] == []


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (("balance", ("amuont",)), "no column 'amuont'.*amount"),
        (("balance", ("to",)), "'to' is of kind category, and numbers alone"),
        (("balance", ("balance",)), "by other columns"),
        (("balance", ("amount", "amount")), "by other columns"),
        (("balance", ("account",)), "'account' is a key"),
    ],
)
def test_what_cannot_be_added_up_is_refused(declared, said):
    with pytest.raises(InvalidInput, match=said):
        running_totals.check(replace(ROWS, running=(declared,)), SCHEMA)
    running_totals.check(replace(ROWS, running=(PAIR,)), SCHEMA)


def test_a_total_needs_an_order_and_a_parent():
    with pytest.raises(InvalidInput, match="no order in which it could go on"):
        running_totals.check(replace(ROWS, running=(AMOUNT,), order=None), SCHEMA)
    with pytest.raises(InvalidInput, match="the root has one row"):
        running_totals.check(replace(ROWS, running=(AMOUNT,), parent=None), SCHEMA)


def test_a_table_that_an_earlier_version_described_has_no_totals():
    facts = {"name": "moves", "order": "day"}
    assert Related.of(facts).running == ()
    assert Related.of({**facts, "running": [["balance", ["amount"]]]}).running == (AMOUNT,)
