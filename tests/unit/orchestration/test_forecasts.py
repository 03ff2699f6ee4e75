"""Forecasts of partitioned tables: what is foretold is what happens, and each refresh is charged to what it reads."""

from __future__ import annotations

import io
import re
import uuid
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
import yaml
from rich.console import Console

from dp_synth_pipeline.cli import forecasting
from dp_synth_pipeline.cli.expecting import AskOptions, ForecastOptions
from dp_synth_pipeline.cli.forecasting import Horizon
from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import Ask, Ledger, advice
from dp_synth_pipeline.orchestration import forecasts, governance, preflight
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import AnySettings, RelatedTablesSettings, TableSettings, is_independent
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.filter import NANO
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.synthesis import horizon
from dp_synth_pipeline.synthesis.expected_quality import Shape, expected, remembered

DAYS = {"column": "seen", "cadence": "daily", "start": "2026-01-01"}
WEEKS = {**DAYS, "cadence": "weekly"}
CITIES = {"column": "city", "values": ["Rome", "Oslo"]}
DAILY, AHEAD = "0 3 * * *", 21


def table(cut: dict | None = None, **changes) -> TableSettings:
    facts = {"table": "visits", "source": "v.parquet", "account": "clinic", "epsilon": 0.5, "delta": 1e-5}
    return TableSettings(**{**facts, "partitions": cut, "schedule": DAILY, **changes})


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    """Two accounts under declared plans, of blocks and without; each admits two releases of epsilon 0.5 on any row."""
    found = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    found.open_account("clinic", epsilon=1.0, delta=1e-4, rule="plan", unit_in_one_block=True, why="test")
    found.open_account("whole", epsilon=1.0, delta=1e-4, rule="plan", why="test")
    return found


def foretold(ledger: Ledger, *tables: AnySettings, account: str = "clinic") -> forecasts.Foretold:
    known = forecasts.scheduled(build_defs(list(tables)))[account]
    until = datetime.now(UTC) + timedelta(days=AHEAD)
    return forecasts.foretell(ledger, account, forecasts.dues(ledger.account(account), known, until))


def said(ledger: Ledger, monkeypatch, *tables: AnySettings, epsilon: float | None = None) -> str:
    monkeypatch.setattr(forecasting, "current_project", lambda: build_defs(list(tables)))
    out = io.StringIO()
    horizon = Horizon(None, AHEAD, epsilon=epsilon)
    forecasting.forecast(ledger, horizon, AskOptions(), Console(file=out, width=400))
    return " ".join(out.getvalue().split())


def happens(ledger: Ledger, told: forecasts.Foretold, account: str = "clinic") -> list[bool]:
    """Reserve every refresh in turn, as runs would, and say which were admitted."""
    admitted = []
    protects = {name: getattr(ledger.account(account), name) for name in ("unit", "max_rows")}
    for due in told.dues:
        ledger.add_blocks(account, due.ask.blocks, why="test", who="test") if due.ask.blocks else None
        try:
            ledger.reserve(
                account,
                key=uuid.uuid4().hex,
                **protects,
                epsilon=due.ask.epsilon,
                delta=due.ask.delta,
                own_delta=due.ask.own_delta,
                blocks=due.ask.blocks,
                table=due.table,
                run_id="r",
                code_version="1",
            )
            admitted.append(True)
        except BudgetExceeded:
            admitted.append(False)
    return admitted


def test_each_daily_refresh_touches_a_new_window_so_none_is_refused_however_many_there_are(ledger, monkeypatch):
    told = foretold(ledger, table(DAYS, epsilon=1.0))
    assert len(told.dues) == AHEAD
    assert all(told.fits)
    assert set(told.blocks.values()) == {1}
    text = said(ledger, monkeypatch, table(DAYS, epsilon=1.0))
    assert "visits, 21 refreshes of epsilon 1 in 21 days, of 21 daily windows of seen, each once" in text
    assert "all fit. One refresh of a fresh window fits: epsilon 1 is left in it" in text
    assert "exhausted" not in text
    assert (
        "Assumed: every schedule is on; a tick refreshes the newest window that is over, or each listed value" in text
    )


def test_what_all_rows_were_charged_counts_in_every_window(ledger, monkeypatch):
    facts = {"delta": 1e-5, "table": "t", "run_id": "r", "code_version": "1"}
    ledger.reserve("clinic", key="all", epsilon=0.6, **facts)
    assert not any(foretold(ledger, table(DAYS)).fits)
    text = said(ledger, monkeypatch, table(DAYS))
    assert "0 fit, and the first that does not is 20" in text
    assert "One refresh of a fresh window does not fit: epsilon 0.4 is left in it" in text
    assert "since releases of all rows took 0.6" in text
    assert "All 21 would fit at epsilon 0.39" in text
    assert "all fit" in said(ledger, monkeypatch, table(DAYS), epsilon=0.39)


def test_a_window_that_is_refreshed_again_and_again_is_charged_again_each_time(ledger, monkeypatch):
    told = foretold(ledger, table(WEEKS))
    assert max(told.blocks.values()) == 7
    assert all(sum(told.fits[i] for i, d in enumerate(told.dues) if d.key == key) <= 2 for key in told.blocks)
    assert "each up to 7 times" in (text := said(ledger, monkeypatch, table(WEEKS)))
    assert "Of 7 refreshes of a fresh window 2 fit" in text
    assert list(told.fits) == happens(ledger, told)


def test_windows_that_share_a_block_charge_it_once_each(ledger, monkeypatch):
    by_week = table({**DAYS, "blocks": "weekly"})
    told = foretold(ledger, by_week)
    assert all(name.startswith("seen:weekly:") for name in told.blocks)
    assert list(told.fits) == happens(ledger, told)
    assert f"charged to {len(told.blocks)} weekly blocks of seen, each up to 7 times" in said(
        ledger, monkeypatch, by_week
    )


def test_each_tick_of_a_rolling_table_charges_the_last_windows_and_refusals_come_where_the_forecast_says(
    ledger, monkeypatch
):
    rolling = table({**DAYS, "windows": 3})
    told = foretold(ledger, rolling)
    assert max(told.blocks.values()) == 3
    assert told.dues[9].ask.blocks[-1] == f"seen:daily:{told.dues[9].key}"
    assert [len(due.ask.blocks) for due in told.dues] == [3] * AHEAD
    assert not all(told.fits), "each day has room for two"
    text = said(ledger, monkeypatch, rolling)
    assert f"charged to {AHEAD + 2} daily blocks of seen, each up to 3 times; {sum(told.fits)} fit" in text
    assert list(told.fits) == happens(ledger, told)


def test_a_tick_that_is_refused_says_which_day_of_a_rolling_table_has_no_room(ledger):
    rolling = table({**DAYS, "windows": 3})
    ledger.add_blocks("clinic", ["seen:daily:2026-01-02"], why="test", who="test")
    facts = {"delta": 1e-5, "table": "t", "run_id": "r", "code_version": "1"}
    ledger.reserve("clinic", key="k", epsilon=0.7, blocks=["seen:daily:2026-01-02"], **facts)
    refused = preflight.refused_at_tick(rolling, ledger, ["2026-01-04"])
    assert "for want of room in block seen:daily:2026-01-02" in str(refused["2026-01-04"])
    assert not preflight.refused_at_tick(rolling, ledger, ["2026-01-05"])


def test_a_listed_value_is_charged_to_its_own_block_at_every_tick(ledger, monkeypatch):
    told = foretold(ledger, table(CITIES))
    assert [d.key for d in told.dues[:4]] == ["Rome", "Oslo", "Rome", "Oslo"]
    assert list(told.fits) == [True] * 4 + [False] * 38
    assert told.first_refused == told.dues[4]
    text = said(ledger, monkeypatch, table(CITIES))
    day = told.dues[4].at
    assert "each value of city 21 times, charged to its own block each time; 4 fit" in text
    assert f"and the first that does not is Rome on {day:%d %B %Y}" in text
    assert list(told.fits) == happens(ledger, told)


@pytest.mark.parametrize(
    "tables",
    [
        [table(DAYS), table(None, table="all", epsilon=0.2, schedule="0 4 * * 1")],
        [table(None, table="all", epsilon=0.3), table(DAYS, epsilon=0.3)],
        [table(WEEKS, epsilon=0.1), table(WEEKS, table="more", epsilon=0.35)],
    ],
    ids=["whole and windows", "whole uses up every window", "two tables of the same windows"],
)
def test_what_is_foretold_of_tables_that_share_an_account_is_what_happens(ledger, tables):
    head = ledger.head()
    told = foretold(ledger, *tables)
    assert ledger.head() == head
    assert [d.at for d in told.dues] == sorted(d.at for d in told.dues), "each is asked about when it is due"
    assert not all(told.fits)
    assert list(told.fits) == happens(ledger, told)


def test_the_epsilon_at_which_all_would_fit_does_and_a_little_more_would_not(ledger):
    told = foretold(ledger, table(CITIES, delta=1e-6))
    fit = forecasts.affordable(ledger, "clinic", told.dues, lambda d: True)
    assert 0.99 / AHEAD < fit <= 1 / AHEAD
    assert all(foretold(ledger, table(CITIES, delta=1e-6, epsilon=fit)).fits)
    assert not all(foretold(ledger, table(CITIES, delta=1e-6, epsilon=1.01 * fit)).fits)


def test_where_delta_runs_out_no_epsilon_is_named(ledger, monkeypatch):
    assert "At no epsilon would all 42 fit." in said(ledger, monkeypatch, table(CITIES, delta=1e-5))


def test_where_units_span_partitions_every_refresh_draws_on_the_account_as_a_whole(ledger, monkeypatch):
    spanning = table({**DAYS, "units_span": True}, account="whole")
    assert list(foretold(ledger, spanning, account="whole").fits) == [True] * 2 + [False] * 19
    text = said(ledger, monkeypatch, spanning)
    assert "whole: 21 refreshes of epsilon 0.5 in 21 days; 2 fit, and the account is exhausted on" in text
    assert "Each partition of visits is charged to all rows: a unit may be in several." in text


def test_a_use_of_a_plan_is_counted_as_a_use_and_not_as_a_charge(ledger, monkeypatch):
    share = (0.5, 5e-5)
    ledger.declare_plan("whole", name="p", events=[Gaussian(60.0)], times=5, why="w", who="w", share=share)
    text = said(ledger, monkeypatch, table(CITIES, account="whole", plan="p"))
    assert "visits, 42 refreshes in 21 days, each one use of plan p, which has 5 left; 5 fit" in text
    assert "exhausted" not in text


def test_an_account_that_was_not_opened_for_blocks_is_named_and_the_others_are_told_all_the_same(ledger, monkeypatch):
    text = said(ledger, monkeypatch, table(DAYS, account="whole"), table(CITIES, table="cities"))
    assert "whole: no refresh of visits would be admitted: account 'whole' was not opened for blocks" in text
    assert "clinic: cities, 42 refreshes" in text


def test_a_table_without_partitions_is_told_as_before_and_one_without_a_schedule_is_not_told(ledger, monkeypatch):
    ledger.open_account("filter", epsilon=2.0, delta=1e-4, why="test")
    text = said(ledger, monkeypatch, table(None, account="filter"))
    fits = ledger.capacity("filter", epsilon=0.5, own_delta=1e-4 / 2000)
    each = ledger.affordable("filter", times=21, own_delta=1e-4 / 2000)
    assert f"filter: 21 refreshes of epsilon 0.5 in 21 days; {fits} fit, and the account is exhausted on" in text
    assert f"All 21 would fit at epsilon {each:.4g} each." in text
    assert 0 < fits < 21
    assert "window" not in text
    with pytest.raises(InvalidInput, match="no table of this project has a schedule"):
        said(ledger, monkeypatch, table(DAYS, schedule=None))


def test_a_forecast_counts_the_quotas_of_whoever_asks_and_of_what_a_table_is_for(ledger, monkeypatch):
    monkeypatch.setenv("LOGNAME", "etl")
    ledger.open_account("filter", epsilon=2.0, delta=1e-4, quotas=["purpose=testing:0.3"], why="test")
    word = {"why": "w", "who": "Ana"}
    free = said(ledger, monkeypatch, table(None, account="filter"))
    bounded = said(ledger, monkeypatch, table(None, account="filter", intended_use="testing"))
    fits = ledger.capacity("filter", epsilon=0.5, own_delta=1e-4 / 2000, purpose="testing")
    assert 0 < fits < ledger.capacity("filter", epsilon=0.5, own_delta=1e-4 / 2000)
    assert f"; {fits} fit, and the account, or a quota of it, is exhausted on" in bounded
    assert f"; {fits} fit" not in free
    assert "etl asks, who counts in quotas; a refresh costs all that it may" in bounded
    each = float(bounded.partition("would fit at epsilon ")[2].split()[0])
    asks = [Ask(each, 1e-4, 1e-4 / 2000, purpose="testing")] * 21
    assert all(ledger.foretold("filter", asks)), "at what is named all of them fit the quota"
    ledger.amend_account("filter", quotas=["requester=etl:0"], **word)
    assert "At no epsilon would all 21 fit." in said(ledger, monkeypatch, table(None, account="filter"))


def test_a_forecast_of_partitions_counts_the_quota_of_what_the_table_is_for(ledger, monkeypatch):
    ledger.open_account(
        "days", epsilon=1.0, delta=1e-4, rule="plan", unit_in_one_block=True, quotas=["purpose=testing:0.4"]
    )
    assert not any(foretold(ledger, table(DAYS, account="days", intended_use="testing"), account="days").fits)
    assert all(foretold(ledger, table(DAYS, account="days"), account="days").fits)


def test_only_the_schedule_of_a_tables_own_is_read_as_one_that_refreshes_its_newest_window(ledger):
    definitions = build_defs([table(DAYS, schedule=None)])
    job = next(j for j in definitions.jobs or () if j.name == "visits_refresh")
    mine = dg.ScheduleDefinition(name="mine", job=job, cron_schedule=DAILY)
    assert forecasts.scheduled(dg.Definitions.merge(definitions, dg.Definitions(schedules=[mine]))) == {}


def test_the_review_foretells_partitions_and_tables_of_the_whole_alike(ledger):
    cities, weekly = table(CITIES), table(None, table="all", epsilon=0.2, schedule="0 4 * * 1")
    ahead = governance.forecast(ledger, build_defs([cities]), AHEAD)["clinic"]
    told = foretold(ledger, cities)
    assert ahead["dates"] == [d.at.isoformat() for d in told.dues]
    assert ahead["fits"] == 4
    assert ahead["first_refused"] == told.dues[4].at.isoformat()
    assert governance.forecast(ledger, build_defs([table(DAYS)]), AHEAD)["clinic"]["first_refused"] is None
    both = governance.forecast(ledger, build_defs([cities, weekly]), AHEAD)["clinic"]
    assert (len(both["dates"]), both["fits"]) == (45, sum(foretold(ledger, cities, weekly).fits))
    # An account that does not say that a unit lies in one block admits no refresh of a window.
    elsewhere = governance.forecast(ledger, build_defs([table(DAYS, account="whole")]), AHEAD)["whole"]
    assert (len(elsewhere["dates"]), elsewhere["fits"]) == (AHEAD, 0)
    assert elsewhere["first_refused"] == elsewhere["dates"][0]


@pytest.fixture
def shared(tmp_path) -> Ledger:
    """An umbrella over two accounts, each of which would admit every refresh by itself."""
    found = Ledger.open(f"sqlite:///{tmp_path / 'shared.db'}")
    found.open_account("persons", epsilon=4.0, delta=1e-5, unit="patient_id", umbrella=True)
    for name in ("clinic", "whole"):
        found.open_account(name, epsilon=4.0, delta=1e-5, under="persons")
    return found


def test_a_forecast_of_a_member_counts_what_other_members_charge_their_umbrella_meanwhile(shared, monkeypatch):
    visits, drugs = table(epsilon=0.7, delta=1e-6), table(table="drugs", account="whole", epsilon=0.7, delta=1e-6)
    alone = said(shared, monkeypatch, visits)
    both = said(shared, monkeypatch, visits, drugs)
    assert "clinic: 21 refreshes of epsilon 0.7 in 21 days; 18 fit" in alone
    assert (
        "clinic: 21 refreshes of epsilon 0.7 in 21 days; 9 fit, and the account or umbrella persons is exhausted"
        in both
    )
    assert "persons: 42 refreshes of its members in 21 days; 18 fit, and the first that does not" in both
    until = datetime.now(UTC) + timedelta(days=AHEAD)
    known = forecasts.scheduled(build_defs([visits, drugs]))
    told = forecasts.under(shared, "persons", known, until)
    assert reviewed(shared, visits, drugs) == 18
    one_by_one = [happens(shared, forecasts.Foretold((due,), ()), due.ask.account)[0] for due in told.dues]
    assert one_by_one == list(told.fits), "what is foretold is what happens"
    assert reviewed(shared, visits, drugs) == 0


def reviewed(ledger: Ledger, *tables: TableSettings) -> int:
    """Return how many refreshes of an umbrella's members fit, as a governance review says: the sum over its members."""
    told = governance.forecast(ledger, build_defs(list(tables)), AHEAD)
    assert told["persons"]["fits"] == told["clinic"]["fits"] + told["whole"]["fits"]
    return told["persons"]["fits"]


def test_the_noise_that_would_let_all_refreshes_fit_is_what_the_umbrella_needs_too(shared, monkeypatch):
    """A charge by hand is no release: how noisy the last one was is asked of releases."""
    asked = {"epsilon": 2.0, "delta": 1e-6, "unit": "patient_id"}
    release = shared.reserve("clinic", key="k", table="visits", run_id="r", code_version="v", **asked)
    shared.start(release.id, "training", [Gaussian(3.0)])
    shared.settle(release.id)
    shared.charge_by_hand("whole", [Gaussian(1.9)], why="w", who="w")
    shared.charge_by_hand("clinic", [Gaussian(900.0)], why="w", who="w")
    text = said(shared, monkeypatch, table(epsilon=2.0, delta=1e-6))
    told = float(re.search(r"with ([0-9.]+) times the noise", text)[1])
    needed = {}
    for name in ("clinic", "persons"):
        terms, balance = shared.account(name), shared.balance(name)
        needed[name] = advice.noise_factor([Gaussian(3.0)], AHEAD, terms.order, balance.cost_left / NANO)
    assert told == float(f"{needed['persons']:.3g}") > needed["clinic"]


@pytest.fixture
def year(tmp_path) -> Ledger:
    found = Ledger.open(f"sqlite:///{tmp_path / 'year.db'}")
    found.open_account("year", epsilon=6.0, delta=1e-5, why="test")
    return found


REMEMBERS = {"account": "year", "epsilon": 4.1, "refresh": {"remember": True, "epsilon": 0.3}}


def released(ledger: Ledger) -> None:
    asked = {"key": "1", "table": "visits", "run_id": "1", "code_version": "v", "own_delta": 5e-9}
    release = ledger.reserve("year", epsilon=4.1, delta=1e-5, **asked)
    ledger.start(release.id, "training", [Gaussian(1.2)])
    ledger.settle(release.id)


def database(**changes) -> RelatedTablesSettings:
    """Related tables that are called as the single table is."""
    parents = {"patients": {"source": "p.parquet", "key": "id"}}
    tables = {**parents, "calls": {"source": "c.parquet", "parent": {"id": "patients"}}}
    return RelatedTablesSettings(**{"database": "visits", "tables": tables, "schedule": DAILY, **changes})


@pytest.mark.parametrize("of", [table, database])
def test_a_table_that_remembers_asks_for_much_once_and_for_little_from_then_on(year, monkeypatch, of):
    asked = [due.ask.epsilon for due in foretold(year, of(**REMEMBERS), account="year").dues]
    assert asked == [4.1, *[0.3] * (AHEAD - 1)]
    assert f"{AHEAD} refreshes of epsilon 4.1 at first and 0.3 from then on" in said(year, monkeypatch, of(**REMEMBERS))
    released(year)
    text = said(year, monkeypatch, of(**REMEMBERS))
    assert f"{AHEAD} refreshes of epsilon 0.3 in {AHEAD} days; all fit" in text


@pytest.mark.parametrize("of", [table, database])
def test_a_tick_asks_for_what_its_refresh_will_ask_for(year, of):
    released(year)
    assert not preflight.refused_at_tick(of(**REMEMBERS), year)
    assert preflight.refused_at_tick(of(**{**REMEMBERS, "refresh": {}}), year), "4.1 does not fit a second time"


ALONE = {"account": "year", "epsilon": 0.3}


def test_a_schedule_that_says_nothing_of_refreshes_is_told_in_figures_what_remembering_would_bring(year, monkeypatch):
    first, later = horizon.divided(year, "year", AHEAD)
    text = said(year, monkeypatch, table(**ALONE))
    most = year.affordable("year", times=AHEAD, own_delta=5e-9)
    assert f"each refresh of visits is by itself, and all {AHEAD} would fit at epsilon {most:.3g}." in text
    assert f"With epsilon: {first:g} and refresh: {{remember: true, epsilon: {later:g}}} they fit too" in text
    assert year.foretold("year", [Ask(first, 1e-5, 5e-9), *[Ask(later, 1e-5, 5e-9)] * (AHEAD - 1)]) == [True] * AHEAD
    monkeypatch.setattr(forecasting, "current_project", lambda: build_defs([table(**ALONE)]))
    out, shape = io.StringIO(), Shape(8000, 15)
    forecasting.forecast(year, Horizon("year", AHEAD), AskOptions(rows=8000, columns=15), Console(file=out, width=400))
    near = remembered(shape, first, later, AHEAD, 1e-5)[-1].two_way
    assert f"about {near:.2g} off, and not {expected(shape, most, 1e-5).two_way:.2g}" in out.getvalue()


def test_related_tables_are_told_as_a_single_one_is_that_remembering_fits_too(year, monkeypatch):
    first, later = horizon.divided(year, "year", AHEAD)
    text = said(year, monkeypatch, database(**ALONE))
    assert f"With epsilon: {first:g} and refresh: {{remember: true, epsilon: {later:g}}} they fit too" in text
    assert "they fit too" not in said(year, monkeypatch, database(**ALONE, refresh={"remember": False}))


@pytest.mark.parametrize(
    "said_of_it",
    [
        {"refresh": {"remember": False}},
        {"refresh": {"remember": True}},
        {"training": {"method": "autoregressive"}},
        {"training": {"rake": False}},
        {"training": {"tune": {"learning_rate": [0.001, 0.01]}}},
        {"reuse_profile": False},
        {"columns": {"seen": {"kind": "text", "max_length": 80}}},
        {"partitions": CITIES},
        {"schedule": None},
    ],
)
def test_no_advice_is_given_to_who_decided_or_where_nothing_can_be_remembered(said_of_it):
    assert is_independent(table(**ALONE))
    assert not is_independent(table(**{**ALONE, **said_of_it}))


def test_no_division_is_advised_where_two_tables_share_an_account_or_it_pays_declared_plans_only(
    year, ledger, monkeypatch
):
    other = table(**{**ALONE, "table": "stays"})
    assert "remember" not in said(year, monkeypatch, table(**ALONE), other)
    assert "remember" not in said(ledger, monkeypatch, table(account="whole", epsilon=0.01))


def divided(year, every=DAILY, days=AHEAD, **asked):
    out = io.StringIO()
    forecasting.divide(year, Horizon("year", days, every), ForecastOptions(**asked), Console(file=out, width=400))
    text, _, plan = out.getvalue().partition("Write:")
    return text, yaml.safe_load(plan)


def test_a_person_is_told_how_to_divide_an_account_over_a_horizon_and_the_settings_that_say_so(year):
    _, plan = divided(year)
    assert plan["schedule"] == DAILY
    assert plan["refresh"]["remember"] is True
    asks = [Ask(plan["epsilon"], 1e-5, 5e-9), *[Ask(plan["refresh"]["epsilon"], 1e-5, 5e-9)] * (AHEAD - 1)]
    assert all(year.foretold("year", asks))
    with pytest.raises(InvalidInput, match="--every"):
        divided(year, every=None)


def test_a_plan_says_how_far_off_refreshes_will_be_that_remember_and_each_by_itself(year):
    text, plan = divided(year, rows=8000, columns=15, days=12)
    terms, shape = year.account("year"), Shape(8000, 15)
    told = remembered(shape, plan["epsilon"], plan["refresh"]["epsilon"], 12, terms.delta)
    assert f"about {told[0].two_way:.2g} by refresh 1, {told[3].two_way:.2g} by refresh 4" in text
    assert f"{told[-1].two_way:.2g} by refresh 12" in text
    alone = year.affordable("year", times=12, own_delta=5e-9)
    by_itself = expected(shape, alone, terms.delta)
    assert f"Each by itself: {wording.distances(by_itself)}" in text
    assert "Poor" not in text
    assert "Expected" not in divided(year)[0]


def test_a_plan_for_a_table_that_moves_is_the_best_for_that_and_says_so(year):
    terms, shape, asked = year.account("year"), Shape(8000, 15), {"rows": 8000, "columns": 15, "days": 12}
    text, plan = divided(year, **asked, drift=0.01)
    epsilons = plan["epsilon"], plan["refresh"]["epsilon"]
    assert epsilons == horizon.best(year, "year", 12, shape, 0.01)
    told = remembered(shape, *epsilons, 12, terms.delta, drift=0.01)
    assert "pairs move by 0.01 from each refresh to the next" in text
    assert f"{told[-1].two_way:.2g} by refresh 12" in text
    assert plan["epsilon"] < divided(year, **asked)[1]["epsilon"]
    with pytest.raises(InvalidInput, match="--rows and --columns"):
        divided(year, drift=0.01)


def test_a_horizon_is_divided_within_the_quota_of_what_it_is_for(year):
    year.amend_account("year", quotas=["purpose=testing:0.4"], why="w", who="Ana")
    free, bounded = divided(year, days=5)[1], divided(year, purpose="testing", days=5)[1]
    asks = [Ask(e, 1e-5, 5e-9, purpose="testing") for e in (bounded["epsilon"], *[bounded["refresh"]["epsilon"]] * 4)]
    assert all(year.foretold("year", asks))
    assert bounded["epsilon"] < free["epsilon"]


def test_an_assumed_schedule_is_for_the_purpose_that_is_said(year):
    year.amend_account("year", quotas=["purpose=testing:0.1"], why="w", who="Ana")
    text = [io.StringIO(), io.StringIO()]
    for out, purpose in zip(text, ("", "testing"), strict=True):
        horizon = Horizon("year", AHEAD, DAILY, 0.3)
        forecasting.forecast(year, horizon, AskOptions(purpose=purpose), Console(file=out, width=400))
    assert "all fit" in text[0].getvalue()
    assert "a quota of it, is exhausted" in text[1].getvalue()
    with pytest.raises(InvalidInput, match="--every"):
        forecasting.forecast(year, Horizon("year", AHEAD), AskOptions(purpose="testing"), Console(file=text[0]))


def test_a_forecast_says_how_far_off_each_refresh_will_be_and_what_would_help(year):
    out = io.StringIO()
    asked = AskOptions(rows=8000, columns=15)
    forecasting.forecast(year, Horizon("year", AHEAD, DAILY, 0.5), asked, Console(file=out, width=400))
    assert f"pairs of columns about {expected(Shape(8000, 15), 0.5, 1e-5).two_way:.2g}" in out.getvalue()
    assert "2 times the rows or ε 1 would bring that to 0.1" in out.getvalue()


@pytest.mark.parametrize("begun", [False, True])
def test_a_table_that_remembers_is_expected_as_near_as_its_releases_together(year, monkeypatch, begun):
    if begun:
        released(year)
    monkeypatch.setattr(forecasting, "current_project", lambda: build_defs([table(**REMEMBERS)]))
    out, asked = io.StringIO(), AskOptions(rows=8000, columns=15)
    forecasting.forecast(year, Horizon("year", AHEAD), asked, Console(file=out, width=400))
    told = remembered(Shape(8000, 15), 4.1, 0.3, AHEAD, 1e-5)
    assert f"about {told[0].two_way:.2g} by refresh 1" in out.getvalue()
    assert "Poor" not in out.getvalue()


def test_a_table_is_told_of_for_one_account_alone(ledger, monkeypatch):
    monkeypatch.setattr(
        forecasting,
        "current_project",
        lambda: build_defs([table(), table(table="other", account="whole")]),
    )
    with pytest.raises(InvalidInput, match="which account"):
        forecasting.forecast(ledger, Horizon(None, 5), AskOptions(rows=800, columns=5), Console(file=io.StringIO()))
