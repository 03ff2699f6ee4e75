"""A release as a Python call: the same ledger, the same refusals, the same rows as the pipeline's."""

from __future__ import annotations

import doctest
import stat
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline import synthesizer
from dp_synth_pipeline.errors import (
    BudgetExceeded,
    InvalidInput,
    ReleaseStateError,
    UnexpectedFailure,
    UnknownAccount,
)
from dp_synth_pipeline.model.dpsgd import training
from dp_synth_pipeline.reporting.card import to_json
from dp_synth_pipeline.reporting.card_verification import verify
from dp_synth_pipeline.synthesis import stages
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.encoding.axis import LEAST_CODES
from tests.integration.conftest import people

QUICK = {"training": {"max_epochs": 1}, "show": False, "columns": {"person": {"kind": "excluded"}}}


@pytest.fixture
def ledger(tmp_path):
    book = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    book.open_account("people", epsilon=6, delta=1e-5)
    return book


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def synthesizer_of(ledger, store, **changes) -> dps.Synthesizer:
    return dps.Synthesizer("people", 1.5, ledger, **{"store": store, **QUICK, **changes})


def test_the_examples_of_the_module_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path))
    done = doctest.testmod(synthesizer)
    assert done.attempted >= 8
    assert done.failed == 0


def test_a_fit_reserves_charges_and_settles_and_leaves_no_real_row_behind(ledger, store):
    model = synthesizer_of(ledger, store).fit(people(600))
    (release,) = ledger.releases("people")
    assert (release.state, release.table) == ("settled", "table")
    assert model.epsilon == release.final_epsilon <= 1.5
    assert {e.mechanism for e in ledger.entries(release_id=release.id)} == {
        "row count",
        "profile",
        "marginals",
        "training",
    }
    assert all(finding.holds for finding in verify(to_json(model.card()), ledger))
    assert not [f for f in (store.root / "restricted").rglob("*") if f.is_file()]


def test_numbers_of_few_rows_have_few_codes(ledger, store):
    """600 rows at epsilon 1.5: pairs of 40 codes each would be all noise."""
    drawer = synthesizer_of(ledger, store, training={"method": "marginals"}).fit(people(600)).drawer()
    assert {column.most_codes for column in drawer.profile.columns} == {LEAST_CODES}
    numbers = [c for column, c in zip(drawer.codec.modelled, drawer.codec.columns, strict=True) if column.kind.numeric]
    assert numbers
    assert max(codec.cardinality for codec in numbers) <= LEAST_CODES + 1, "one more for nulls"


@pytest.mark.parametrize("form", ["pandas", "arrow", "path", "uri"])
def test_rows_come_back_in_the_types_of_every_form_of_source(ledger, store, tmp_path, form):
    frame = people(600)
    frame.to_parquet(tmp_path / "people.parquet")
    data = {
        "pandas": frame,
        "arrow": pa.Table.from_pandas(frame),
        "path": tmp_path / "people.parquet",
        "uri": str(tmp_path / "people.parquet"),
    }[form]
    rows = synthesizer_of(ledger, store).fit(data).sample(50)
    assert len(rows) == 50
    assert list(rows.columns) == [c for c in frame.columns if c != "person"]
    assert rows["seen"].dtype.kind == "M"


def test_a_saved_model_draws_and_says_the_same_without_ledger_or_store(ledger, store, tmp_path):
    rules = {"rules": ["age >= 18"]}
    model = dps.Synthesizer("people", 5.0, ledger, store=store, validation=rules, **QUICK).fit(people(2000))
    path = model.save(tmp_path / "people.dps")
    again = dps.load(path)
    assert again.card() == model.card()
    ages = again.sample(100)["age"].dropna()
    assert len(ages) > 50
    assert ages.min() >= 18
    assert not stat.S_IMODE(path.stat().st_mode) & 0o111


def test_what_a_pipeline_released_is_drawn_from_in_python(bench):
    assert bench.refresh().success
    model = dps.load(bench.store / "releasable" / "people")
    assert len(model.sample(20)) == 20
    (release,) = bench.ledger.releases("people")
    assert model.epsilon == release.final_epsilon


def test_what_is_no_saved_model_is_refused(tmp_path):
    (tmp_path / "x.dps").write_bytes(b"PK no")
    for name in ("x.dps", "absent.dps", "."):
        with pytest.raises(InvalidInput, match="no saved model"):
            dps.load(tmp_path / name)


def test_a_fit_that_the_account_cannot_pay_for_is_refused_and_changes_nothing(ledger, store):
    head = ledger.head()
    with pytest.raises(BudgetExceeded):
        synthesizer_of(ledger, store, columns={}).__class__("people", 7.0, ledger, store=store, **QUICK).fit(
            people(100)
        )
    assert ledger.head() == head


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainng": {}}, "trainng: there is no such setting. Did you mean training?"),
        ({"training": {"max_epoch": 3}}, r"training.max_epoch: .* Did you mean max_epochs\?"),
        ({"public": {"whi": "x", "why": "x", "by": "x"}}, "public.whi: there is no such setting"),
        ({"columns": {"age": {"kind": "intger"}}}, r"^columns.age: kind: .*got 'intger'. Did you mean integer\?$"),
        ({"columns": {"age": {"knd": "integer"}}}, r"^columns.age: unknown fact 'knd'.* Did you mean kind\?$"),
        ({"columns": {"age": {"nulls": "droop"}}}, r"^columns.age: nulls: .* Did you mean drop\?$"),
        ({"columns": {"age": "integer"}}, r"^columns.age: expected facts such as \{kind: category\}"),
        ({"nulls": "perhaps"}, "nulls"),
        ({"training": {"seed": 1}}, "a seed would repeat the noise"),
    ],
)
def test_a_setting_that_cannot_be_is_named_before_anything_is_read(ledger, store, changes, message):
    with pytest.raises(InvalidInput, match=message):
        synthesizer_of(ledger, store, **changes)


def test_an_account_that_is_missing_is_named(ledger, store):
    with pytest.raises(UnknownAccount, match="nobody"):
        dps.Synthesizer("nobody", 1.0, ledger, store=store)


def test_data_that_cannot_be_used_charges_nothing(ledger, store, tmp_path):
    for data in (pd.DataFrame({"a": [1, "x"]}), tmp_path / "absent.csv", {"a": [1]}, pd.DataFrame()):
        with pytest.raises(InvalidInput):
            synthesizer_of(ledger, store, columns={}).fit(data)
    assert {r.state for r in ledger.releases("people")} <= {"voided"}
    assert ledger.balance("people").cost_spent == 0


@pytest.mark.parametrize(
    "data", [pd.DataFrame(), pd.DataFrame(index=["a", "b"]), pa.table({})], ids=["empty", "index", "arrow"]
)
def test_a_table_without_columns_is_refused_before_anything_is_reserved(ledger, store, data):
    with pytest.raises(InvalidInput, match="the table has no columns; nothing was charged"):
        synthesizer_of(ledger, store).fit(data)
    assert ledger.releases() == []


def test_a_fit_that_was_interrupted_is_gone_on_with_at_no_second_charge_for_what_was_seen(ledger, store, monkeypatch):
    def stopped(*asked, **named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(training, "train", stopped)
        with pytest.raises(KeyboardInterrupt) as caught:
            synthesizer_of(ledger, store).fit(people(600))
    (release,) = ledger.releases("people")
    assert release.id in caught.value.__notes__[0]
    model = synthesizer_of(ledger, store).fit(people(600), resume=release.id)
    assert len(ledger.releases("people")) == 1
    assert model.epsilon <= 1.5
    with pytest.raises(InvalidInput, match="nothing to go on with"):
        synthesizer_of(ledger, store).fit(people(600), resume=release.id)


def test_an_error_of_a_library_quotes_no_cell(ledger, store, monkeypatch):
    def broken(*asked, **named):
        raise ValueError("CANARY")

    monkeypatch.setattr(training, "train", broken)
    with pytest.raises(UnexpectedFailure) as caught:
        synthesizer_of(ledger, store).fit(people(600))
    assert "CANARY" not in str(caught.value)


def test_a_second_fit_of_a_table_at_once_is_refused_before_anything_is_reserved(ledger, store):
    fitter = synthesizer_of(ledger, store)
    with fitter._alone(), pytest.raises(ReleaseStateError, match="being fitted"):
        synthesizer_of(ledger, store).fit(people(100))
    assert ledger.releases("people") == []


def test_two_releases_of_a_table_at_once_each_learn_from_marginals_of_their_own(ledger, store, tmp_path):
    """Whoever runs them, a notebook, a pipeline or both, each has paid for its own."""
    people(600).to_parquet(tmp_path / "people.parquet")
    settings = synthesizer_of(ledger, store)._checked(str(tmp_path / "people.parquet"))
    first, second = (Release.reserve(settings, ledger, store, key=key, run_id=key) for key in ("first", "second"))
    for stage in stages.of_release(first.settings)[:4]:
        first.run(stage)
    measured = first.state.path("marginals").read_bytes()
    for stage in stages.of_release(second.settings)[:4]:
        second.run(stage)
    assert first.state.path("marginals").read_bytes() == measured


def test_the_units_of_the_account_are_those_of_the_fit(ledger, store):
    ledger.open_account("persons", epsilon=3, delta=1e-5, unit="person", max_rows=2)
    # Declared, since the noisy count of 150 persons is below two in one of forty runs.
    terms = {"population": 150, "training": {"max_epochs": 1}}
    fitter = dps.Synthesizer("persons", 1.0, ledger, store=store, show=False, **terms)
    card = fitter.fit(people(300)).card()
    assert (card.facts.unit, card.facts.unit_max_rows) == ("person", 2)


def warned_of_units(fitter, data) -> list[str]:
    """Begin a fit, and return what was warned of before anything was charged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            fitter.fit(data)
    return [str(w.message) for w in caught if "privacy unit" in str(w.message)]


@pytest.mark.parametrize("repeats", [1, 3], ids=["each person once", "each person thrice"])
def test_a_row_as_unit_beside_a_column_that_names_people_is_told_before_the_charge_by_names_alone(
    ledger, store, monkeypatch, repeats
):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "measure_profile", stopped)
    frame = people(300).rename(columns={"person": "patient_id"}).assign(patient_id=np.repeat(range(300), repeats)[:300])
    (said,) = warned_of_units(synthesizer_of(ledger, store, columns={}), frame)
    assert "rows of one patient_id are protected one by one" in said
    assert ledger.entries("people") == []
    assert warned_of_units(synthesizer_of(ledger, store, columns={}, unit="row"), frame) == []
    assert warned_of_units(synthesizer_of(ledger, store, columns={}), frame.drop(columns="patient_id")) == []
    ledger.open_account("patients", epsilon=6, delta=1e-5, unit="patient_id", max_rows=3)
    whole = dps.Synthesizer("patients", 1.5, ledger, store=store, show=False)
    assert warned_of_units(whole, frame) == []


def dated(rows: int = 2_000) -> pd.DataFrame:
    """People whose day is text, which hardly repeats."""
    days = pd.Timestamp("2000-01-01") + pd.to_timedelta(np.arange(rows), unit="D")
    return people(rows)[["age", "city"]].assign(seen=days.strftime("%Y-%m-%d").astype(object))


@pytest.fixture
def plenty(ledger, store):
    """Makes a Synthesizer with so much epsilon that a cell's noise is below 8 rows: 5 % of 2,000 rows is 12 times that.

    At this delta one of 2,000 values that occur once is released with probability below 1e-8.
    """
    ledger.open_account("plenty", epsilon=60, delta=1e-12)

    def made(columns) -> dps.Synthesizer:
        return dps.Synthesizer("plenty", 10.0, ledger, **{"store": store, **QUICK, "columns": columns})

    return made


def test_what_becomes_of_text_is_said_before_the_charge_and_a_column_that_came_out_empty_is_warned_of(
    ledger, plenty, monkeypatch
):
    said = []
    monkeypatch.setattr(synthesizer.ProgressBars, "say", lambda _, told: said.append((told, ledger.entries("plenty"))))
    with pytest.warns(UserWarning, match="Text of which no value is frequent.*nulls are drawn: seen. .*kind: date"):
        model = plenty({"city": {"kind": "category"}}).fit(dated())
    assert model.sample(50)["seen"].isna().all()
    ((told, charged),) = said
    assert told.startswith("Text is learnt as categories: seen. ")
    assert "columns={'seen': {'kind': 'date'}}, or convert them first, as by pandas.to_datetime" in told
    assert charged == []


@pytest.mark.parametrize("kind", ["date", "datetime"])
def test_a_declared_kind_has_text_read_as_what_it_is(plenty, kind):
    columns = {"seen": {"kind": kind, "lower": "2000-01-01", "upper": "2006-01-01"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        drawn = plenty(columns).fit(dated()).sample(200)
    days = pd.to_datetime(drawn["seen"].dropna())
    assert len(days) > 100
    assert days.between("2000-01-01", "2006-01-02").all()


def test_text_that_a_declared_kind_cannot_read_comes_out_empty_with_a_warning(plenty):
    columns = {"seen": {"kind": "date", "format": "%d.%m.%Y", "lower": "2000-01-01", "upper": "2006-01-01"}}
    with pytest.warns(UserWarning, match="Nulls, and hardly anything else: seen.*format"):
        plenty(columns).fit(dated())
