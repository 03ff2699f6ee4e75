"""Drawing from what was released: on a condition, with shares, with a seed, from partial rows; without source or ledger."""

from __future__ import annotations

import json
import shutil
import warnings

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.progress_bars import ProgressBars
from dp_synth_pipeline.synthesis import released
from dp_synth_pipeline.synthesis.generator_files import DESCRIBED
from dp_synth_pipeline.synthesis.sampling import Drawer
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.synthesis.whole_table import WholeTable
from tests.integration.conftest import people, steps

ROWS = 2_000
DECLARED = {
    "person": {"kind": "identifier"},
    "age": {"lower": 18, "upper": 79},
    "city": {"categories": ["Rome", "Oslo", "Lima"]},
    "income": {"lower": 0, "upper": 120},
}
QUICK = {"training": {"method": "marginals"}, "show": False, "columns": DECLARED, "reuse_profile": False}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A home in which one table was released twice, and its ledger and source are gone."""
    folder = tmp_path_factory.mktemp("released")
    ledger = dps.Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
    ledger.open_account("people", epsilon=30, delta=1e-5)
    how = {"store": Store(folder / "home" / "store"), "table": "people", **QUICK}
    first = dps.Synthesizer("people", 1.5, ledger, **how).fit(people(600))
    rules = {"rules": ["age >= 20"]}
    second = dps.Synthesizer("people", 6.0, ledger, validation=rules, **how).fit(people(ROWS))
    second.save(folder / "people.dps")
    (folder / "earlier").write_text(first.card().facts.release)
    for file in folder.glob("ledger.db*"):
        file.unlink()
    shutil.rmtree(folder / "home" / "store" / "restricted")
    return folder


@pytest.fixture
def model(place):
    return dps.load(place / "people.dps")


@pytest.mark.parametrize(
    "where",
    [
        "city = 'Oslo' AND age BETWEEN 40 AND 60",
        "NOT smoker AND (score IS NULL OR income > 30)",
        "seen >= DATE '2024-06-01' AND seen < DATE '2024-07-01'",
        "age > income",
        {"smoker": True, "city": ["Rome", "Lima"]},
    ],
)
def test_every_row_satisfies_its_condition_and_keeps_the_rules(model, where):
    rows = model.sample(300, where=where)
    assert len(rows) == 300
    assert list(rows.columns) == list(model.sample(1).columns)
    sql = where if isinstance(where, str) else "smoker AND city IN ('Rome', 'Lima')"
    assert len(duckdb.query_df(rows, "drawn", f"SELECT * FROM drawn WHERE {sql}").df()) == 300
    assert rows["age"].min() >= 20
    assert rows["person"].tolist() == list(range(1, 301))
    assert 0 < rows.attrs["effective_sample_size"] <= 300


def test_a_condition_keeps_how_often_everything_else_occurs(model):
    """Drawn on a condition, or left over from draws without one: both are the same distribution."""
    given = model.sample(4_000, where="city = 'Rome'")
    plain = model.sample(12_000)
    filtered = plain[plain["city"] == "Rome"]
    assert given["smoker"].mean() == pytest.approx(filtered["smoker"].mean(), abs=0.06)
    assert given["age"].mean() == pytest.approx(filtered["age"].mean(), abs=2.5)
    assert given["score"].isna().mean() == pytest.approx(filtered["score"].isna().mean(), abs=0.06)


def test_rows_that_hardly_fit_come_with_a_warning_and_what_they_are_worth(model, monkeypatch):
    from dp_synth_pipeline.synthesis import conditional

    monkeypatch.setattr(conditional, "MOST", 1 << 12)
    monkeypatch.setattr(conditional, "MOST_EACH", 1)
    with pytest.warns(UserWarning, match="drawn one by one"):
        rows = model.sample(3_000, where="abs(age - income) < 0.5")
    assert len(rows) == 3_000
    assert rows.attrs["effective_sample_size"] < 1_500
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.sample(50, where="smoker")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"where": "city = 'Paris'"}, "nothing fits: .* released values .*Rome"),
        ({"where": "age > 30 AND age > income + 100000"}, "nothing fits: none of .* draws.*Relax it"),
        ({"where": "town = 'Rome'"}, "no column 'town'"),
        ({"share": {"city": {"Paris": 0.5}}}, "nothing fits: .*Rome"),
        ({"share": {"city": {"Rome": 1.5}}}, "between 0 and 1"),
        ({"seed": -1}, "whole number from 0"),
        ({"seed": "x"}, "whole number from 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_to_do(model, monkeypatch, asked, message):
    from dp_synth_pipeline.synthesis import conditional

    monkeypatch.setattr(conditional, "HOPELESS", 1 << 13)
    with pytest.raises(InvalidInput, match=message):
        model.sample(10, **asked)
    with pytest.raises(InvalidInput, match="rows: expected"):
        model.sample(0)


def test_shares_are_as_asked_and_the_rest_keeps_its_proportions(model):
    rows = model.sample(1_000, share={"city": {"Lima": 0.5}})
    counts = rows["city"].value_counts()
    assert counts["Lima"] == 500
    assert counts["Rome"] > counts["Oslo"]
    assert rows["person"].tolist() == list(range(1, 1_001))
    both = model.sample(1_000, share={"city": {"Lima": 0.5}, "smoker": {True: 0.5}}, where="age < 60")
    assert (both["city"] == "Lima").sum() == pytest.approx(500, abs=3)
    assert both["smoker"].sum() == pytest.approx(500, abs=3)
    assert both["age"].max() < 60


def test_a_seed_gives_the_same_rows_and_no_seed_gives_others(model, place):
    again = dps.load(place / "people.dps")
    for asked in ({}, {"where": "smoker"}, {"share": {"city": {"Lima": 0.5}}}):
        first = model.sample(400, seed=7, **asked)
        assert first.equals(again.sample(400, seed=7, **asked))
        assert not first.equals(model.sample(400, seed=8, **asked))
        assert not model.sample(400, **asked).equals(model.sample(400, **asked))


def test_a_seed_reaches_no_mechanism(place, monkeypatch, tmp_path):
    """No release seeds anything, whatever was drawn with a seed before; and drawing with one performs no mechanism."""
    given, honest = [], np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed=None: given.append(seed) or honest(seed))
    with monkeypatch.context() as patched:
        patched.setattr(Odometer, "__init__", lambda *asked, **named: pytest.fail("a mechanism ran"))
        model = dps.load(place / "people.dps")
        model.sample(100, seed=3, where="smoker")
        model.complete(pd.DataFrame({"city": ["Rome", None]}), seed=3)
    assert 3 in given
    given.clear()
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("people", epsilon=3, delta=1e-5)
    dps.Synthesizer("people", 1.5, ledger, store=Store(tmp_path / "store"), **QUICK).fit(people(600))
    assert set(given) <= {None}


def test_partial_rows_are_completed_and_what_was_known_is_untouched(model):
    whole = people(300).drop(columns="person").astype({"city": "category", "age": "Int64", "smoker": "boolean"})
    whole["mine"] = range(300)
    rng = np.random.default_rng(1)
    holes = rng.random(whole.shape) < 0.3
    holes[:, -1] = False
    partial = whole.mask(holes)
    before = partial.copy()
    done = model.complete(partial)
    pd.testing.assert_frame_equal(partial, before)
    assert done.dtypes[partial.columns].tolist() == partial.dtypes.tolist()
    assert done[list(whole.columns)].notna().all().all()
    for name in partial:
        known = partial[name].notna()
        assert (done.loc[known, name] == partial.loc[known, name]).all()
    assert set(done["city"]) <= {"Rome", "Oslo", "Lima"}


def test_filled_cells_keep_the_declared_rules_and_known_cells_stay(model):
    """The model's rule is age >= 20; its rows are of 18 to 79."""
    assert (model.complete(pd.DataFrame({"age": [None] * 2_000}), seed=1)["age"] >= 20).all()
    assert model.complete(pd.DataFrame({"age": [18], "city": [None]}))["age"].tolist() == [18]


def test_cells_beyond_what_was_released_are_kept_and_used_as_far_as_they_go(model):
    rows = pd.DataFrame({"age": [900, None], "city": ["Atlantis", None], "smoker": [None, True]}, index=[5, 9])
    done = model.complete(rows)
    assert done.index.tolist() == [5, 9]
    assert done["age"][5] == 900
    assert done["city"][5] == "Atlantis"
    assert done["city"][9] in ("Rome", "Oslo", "Lima")
    assert {"income", "seen", "person"} <= set(done.columns)
    assert model.complete(rows.iloc[:0]).empty
    with pytest.raises(InvalidInput, match="column 'age' holds values that are no integer"):
        model.complete(pd.DataFrame({"age": ["old"]}))
    with pytest.raises(InvalidInput, match="expected a pandas DataFrame, got dict"):
        model.complete({"age": [1]})
    with pytest.raises(InvalidInput, match="expected a pandas DataFrame, got list"):
        model.log_likelihood([1])


def test_a_model_says_what_it_is(model):
    schema = model.schema
    assert schema.loc["city", "values"][0] == "Rome"
    assert schema.loc["age", "kind"] == "integer"
    assert float(schema.loc["age", "upper"]) >= 70
    drawn = model.sample(200)
    assert np.isfinite(model.log_likelihood(drawn.drop(columns="person"))).mean() > 0.99
    with pytest.raises(InvalidInput, match="lacks"):
        model.log_likelihood(drawn[["age"]])
    page = model._repr_html_()
    assert "<b>people</b>" in page
    assert "ε = " in page
    assert "per row" in page
    assert ", of 6 columns<" in page, "person is numbered, and not modelled"
    release = model.card().facts.release
    assert repr(model) == str(model) == f"<SyntheticModel of people, release {release[:12]}>"


def test_the_table_s_name_is_escaped_in_a_notebook(model, monkeypatch):
    from dataclasses import replace

    card = model.card()
    monkeypatch.setattr(type(model), "card", lambda self: replace(card, facts=replace(card.facts, table="<script>")))
    assert "<script>" not in model._repr_html_()


@pytest.fixture
def home(place, shell):
    shutil.copytree(place / "home", shell.folder / "home", dirs_exist_ok=True)
    shutil.copy(place / "people.dps", shell.folder)
    return shell


def test_the_command_draws_a_table_s_rows_without_source_or_ledger(home):
    done = home("sample", "people", "--rows", 200, "--where", "smoker", "--out", "rows.csv", "--seed", 5)
    assert done.code == 0, done.text
    assert "Nothing was charged" in done.text
    assert "Effective sample size: 200 of 200" in done.text
    rows = pd.read_csv(home.folder / "rows.csv")
    assert (len(rows), rows["smoker"].all(), rows["age"].min() >= 20) == (200, True, True)
    assert not (home.folder / "home" / "ledger.db").exists()
    again = home("sample", "people.dps", "--rows", 200, "--where", "smoker", "--out", "again.csv", "--seed", 5)
    assert again.code == 0
    assert (home.folder / "again.csv").read_bytes() == (home.folder / "rows.csv").read_bytes()


def test_the_command_writes_where_a_release_would_and_tells_it_as_json(home):
    done = home(
        "sample",
        "people",
        "--rows",
        100,
        "--share",
        "city: {Lima: 0.5}",
        "--out",
        "duckdb:///w.duckdb?table=s.t",
        "--json",
    )
    told = json.loads(done.out)
    assert (told["rows"], told["effective_sample_size"], told["epsilon_charged"]) == (100, 100, 0)
    with duckdb.connect(str(home.folder / "w.duckdb")) as con:
        assert con.execute("SELECT count(*) FROM s.t WHERE city = 'Lima'").fetchone() == (50,)


@pytest.mark.parametrize(
    ("rows", "asked"),
    [
        (70_000, ()),
        (3_000, ("--where", "city = 'Oslo' AND age >= 40")),
        (3_000, ("--share", "city: {Oslo: 0.5}")),
        (3_000, ("--share", "city: {Oslo: 0.5}", "--where", "age >= 40")),
    ],
    ids=["plain", "where", "share", "both"],
)
def test_the_command_shows_how_far_it_is_however_the_rows_are_asked_for(home, monkeypatch, rows, asked):
    """A first fetch makes 2,048 draws and a batch has 32,768 rows, so that more than one report is certain."""
    told = []
    monkeypatch.setattr(ProgressBars, "report", lambda self, stage, done, total: told.append((done, total)))
    assert home("sample", "people", "--rows", rows, *asked, "--out", "rows.parquet").code == 0
    done = [d for d, _ in told]
    assert {total for _, total in told} == {rows}
    assert (done, done[0], done[-1]) == (sorted(done), 0, rows)
    assert any(0 < d < rows for d in done)


def test_an_earlier_release_is_still_drawn_from(home, place):
    earlier = (place / "earlier").read_text()
    done = home("sample", "people", "--release", earlier[:10], "--rows", 5, "--out", "o.parquet", "--json")
    assert json.loads(done.out)["release"] == earlier
    done = home("sample", "people", "--rows", 5, "--out", "o.parquet", "--json")
    assert json.loads(done.out)["release"] != earlier


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nobody", "--out", "o.csv"], "No released generator of a table 'nobody'.*released are: people"),
        (["people", "--out", "o.xlsx"], "unknown kind of target"),
        (["people", "--out", "o.csv", "--where", "city = 'Paris'"], "released values .*Rome"),
        (["people", "--out", "o.csv", "--share", "city"], "--share: expected parts by value"),
        (["people", "--out", "o.csv", "--release", "zzz"], "holds none of"),
        (["people.dps", "--out", "o.csv", "--release", "a"], "a file is of one release"),
    ],
)
def test_the_command_refuses_what_cannot_be_and_writes_nothing(home, args, message):
    import re

    done = home("sample", *args, "--rows", 5)
    assert done.code == 2
    assert re.search(message, done.text)
    assert not list(home.folder.glob("o.*"))


def test_a_pipeline_draws_what_its_yaml_asks_and_further_tables_of_one_generator(bench):
    target = str(bench.folder / "smokers.parquet")
    asked = {
        "rows": 120,
        "where": "age >= 30",
        "outputs": {"smokers": {"where": "smoker", "rows": 70, "target": target}},
    }
    assert bench.refresh(generation=asked, training={"method": "marginals"}).success
    folder = bench.store / "releasable" / "people"
    rows = pd.read_parquet(folder / "synthetic.parquet")
    assert (len(rows), rows["age"].min() >= 30) == (120, True)
    smokers = pd.read_parquet(target)
    assert (len(smokers), smokers["smoker"].all()) == (70, True)
    limits = json.loads((folder / "release_card.json").read_text())["limits"]
    assert any("conditional: only rows were drawn that satisfy age >= 30" in text for text in limits)
    assert any("smokers" in text for text in limits)
    checked = {r["name"]: r for r in json.loads((folder / "checks.json").read_text())}
    assert checked["output_smokers"]["passed"]
    assert "smokers" in (folder / "data_docs" / "output_smokers.html").read_text()
    (release,) = bench.ledger.releases("people")
    assert release.state == "settled"


def test_a_further_table_that_fails_its_checks_keeps_all_tables_from_being_published(bench, monkeypatch):
    from dp_synth_pipeline.synthesis import sampling

    original = sampling.sink.write_parquet

    def with_strangers(batches, schema, path):
        if path.parent.name == sampling.OUTPUTS:
            rows = pa.Table.from_batches(batches, schema)
            strangers = pa.array(["Paris"] * len(rows))
            batches = rows.set_column(rows.schema.get_field_index("city"), "city", strangers).to_batches()
        return original(batches, schema, path)

    monkeypatch.setattr(sampling.sink, "write_parquet", with_strangers)
    asked = {"rows": 120, "outputs": {"all": {"rows": 70, "target": str(bench.folder / "all.parquet")}}}
    run = bench.refresh(generation=asked, training={"method": "marginals"}, columns=DECLARED)
    assert not run.success
    assert "published" not in steps(run, "STEP_SUCCESS")
    assert not (bench.folder / "all.parquet").exists()
    checked = {r["name"]: r for r in json.loads((bench.store / "releasable" / "people" / "checks.json").read_text())}
    assert not checked["output_all"]["passed"]
    assert checked["output_all"]["observed"]["failed"] == ["city__domain"]
    assert "Every value of city is one of the 3" in checked["output_all"]["description"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"generation": {"where": "aeg > 30"}}, "where: no column 'aeg'"),
        (
            {"generation": {"outputs": {"all": {"where": {"smokr": True}, "target": "o.csv"}}}},
            "where: no column 'smokr'",
        ),
        ({"generation": {"share": {"smokr": {True: 0.5}}}}, "share: no column 'smokr'"),
        ({"validation": {"rules": ["aeg <= income"]}}, "there is no column 'aeg' to publish"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_wrong_name_is_refused_before_anything_is_read_or_charged(place, tmp_path, asked, message, kind):
    source = tmp_path / f"people.{kind}"
    (people(50).to_csv if kind == "csv" else people(50).to_parquet)(source, index=False)
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("people", epsilon=3, delta=1e-5)
    made = dps.Synthesizer("people", 1.5, ledger, store=Store(tmp_path / "store"), show=False, **asked)
    with pytest.raises(InvalidInput, match=message):
        made.fit(source)
    assert [r.state for r in ledger.releases()] == ["voided"]


@pytest.fixture
def parted(home):
    """A table with two partitions, of which the second has three times as many rows by its released number."""
    table = home.folder / "home/store/releasable/people"
    for city, times in (("Oslo", 1), ("Rome", 3), ("Oslo--Rome", 50)):
        part = shutil.copytree(table, table.parent / f"parted/partition={city}")
        profile = json.loads((part / "generator/profile.json").read_text())
        (part / "generator/profile.json").write_text(json.dumps(profile | {"rows": times * profile["rows"]}))
    return home


def test_the_whole_of_a_table_with_partitions_is_drawn_from_the_releases_of_all(parted):
    done = parted("sample", "parted", "--rows", 4000, "--out", "all.parquet", "--seed", 1)
    assert done.code == 0, done.text
    assert "come from the releases of 2 partitions, already paid for" in done.text
    assert len(pd.read_parquet(parted.folder / "all.parquet")) == 4000
    told = parted("sample", "parted", "--rows", 10, "--out", "some.csv", "--json")
    assert json.loads(told.out)["partitions"].keys() == {"Oslo", "Rome"}
    one = parted("sample", "parted/partition=Rome", "--rows", 10, "--where", "smoker", "--out", "one.csv")
    assert one.code == 0, one.text
    refused = parted("sample", "parted", "--rows", 10, "--where", "smoker", "--out", "o.csv")
    assert refused.code == 2
    assert "name one, such as parted/partition=Oslo" in refused.text


def test_a_partition_gives_as_many_rows_as_its_released_number_says(parted, monkeypatch):
    found = released.partitions_of(Store(parted.folder / "home/store"), "parted")
    asked = []
    honest = Drawer.draw
    monkeypatch.setattr(Drawer, "draw", lambda self, rows, *how: asked.append(rows) or honest(self, rows, *how))
    drawn = WholeTable(found).draw(4000)
    assert sum(batch.num_rows for batch in drawn) == 4000
    assert asked[1] == pytest.approx(3000, abs=150), "28 is the deviation"


@pytest.mark.parametrize(
    ("rolling", "drawn"),
    [(("Oslo", "Rome"), ["Rome"]), (("Rome",), ["Rome"]), (("Oslo",), ["Rome"]), ((), ["Oslo", "Rome"])],
)
def test_what_partitions_cover_in_common_is_drawn_once(parted, rolling, drawn):
    for city in rolling:
        path = parted.folder / f"home/store/releasable/parted/partition={city}/generator" / DESCRIBED
        described = json.loads(path.read_text())
        described["facts"]["windows"] = 30
        path.write_text(json.dumps(described))
    found = released.partitions_of(Store(parted.folder / "home/store"), "parted")
    assert [part.table for part in found] == [f"parted/partition={city}" for city in drawn]


def test_partitions_of_other_types_are_no_one_table(parted):
    folder = parted.folder / "home/store/releasable/parted/partition=Rome/generator"
    description = folder / DESCRIBED
    text = description.read_text()
    assert '\\"int64\\"' in text
    description.write_text(text.replace('\\"int64\\"', '\\"int32\\"', 1))
    refused = parted("sample", "parted", "--rows", 10, "--out", "o.csv")
    assert refused.code == 2
    assert "of other types than those of parted/partition=Oslo" in refused.text


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rows_that_were_drawn_are_likely_though_a_text_never_repeats_and_a_number_never_varies(place):
    ledger = dps.Ledger.open(f"sqlite:///{place / 'notes.db'}")
    ledger.open_account("notes", epsilon=50, delta=1e-5)
    notes = people(ROWS)[["age", "income"]].assign(note=[f"note {i}" for i in range(ROWS)], visits=1.0)
    facts = {"age": DECLARED["age"], "income": DECLARED["income"], "visits": {"lower": 1, "upper": 2}}
    model = dps.Synthesizer("notes", 20, ledger, store=Store(place / "notes"), **QUICK | {"columns": facts}).fit(notes)
    drawn = model.sample(500)
    assert drawn["note"].isna().all()
    assert np.isfinite(model.log_likelihood(drawn)).mean() > 0.99
    assert np.isneginf(model.log_likelihood(drawn.assign(note="note 1"))).all()
