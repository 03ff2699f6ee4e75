"""Each way to learn, through the whole graph: what it measures, what it charges, and that a killed training resumes."""

import json
import math

import dagster as dg
import pandas as pd
import pytest
from pydantic import ValidationError

from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from tests.integration.conftest import failure, people, steps

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def mechanisms(bench) -> list[str]:
    return [e.mechanism for e in bench.ledger.entries()]


def generator(bench):
    return artifact.load(bench.store / "releasable" / "people" / "generator")


def released(bench, **changes):
    result = bench.refresh(**changes)
    assert result.success, failure(result)
    return bench.ledger.releases("people")[-1]


def test_marginals_alone_train_nothing_and_spend_all_that_the_profile_leaves(bench):
    release = released(bench, training={"method": "marginals", "start": "random"})
    assert mechanisms(bench) == ["row count", "profile", "marginals"]
    taught = generator(bench)[0].proposal
    assert any(block.heads.weight.any() for block in taught.blocks), "by the fits, whatever the start"
    assert generator(bench)[0].tilt is not None
    assert 3.95 < release.final_epsilon <= 4.0


def test_one_column_has_no_marginals_to_learn_from_and_is_told_what_to_use_instead(bench):
    others = ("person", "age", "city", "income", "seen", "score")
    columns = {name: {"kind": "excluded"} for name in others}
    result = bench.refresh(columns=columns, training={"method": "marginals"})
    assert "needs two columns to learn; use method: autoregressive" in str(failure(result))
    assert mechanisms(bench) == ["row count", "profile"]


def test_the_network_alone_measures_no_marginals(bench):
    result = bench.refresh(training={"method": "autoregressive", "max_epochs": 2})
    assert result.success, failure(result)
    assert "marginals" not in steps(result, "STEP_SUCCESS")
    assert mechanisms(bench) == ["row count", "profile", "training"]
    learnt, _ = generator(bench)
    assert learnt.tilt is None


def test_draws_are_raked_unless_a_person_says_no(bench):
    released(bench, training={"max_epochs": 1})
    assert generator(bench)[0].tilt is not None
    released(bench, training={"max_epochs": 1, "rake": False})
    assert generator(bench)[0].tilt is None


def test_a_noise_and_a_cap_run_the_steps_that_fit_and_not_one_more(bench):
    training = {"method": "autoregressive", "max_epochs": 400, "noise_multiplier": 1.1}
    release = released(bench, epsilon=3.0, training=training)
    spent = [event for e in bench.ledger.entries() for event in e.events]
    (training,) = (e for e in spent if isinstance(e, SubsampledGaussian))
    assert training.noise_multiplier == 1.1
    one_more = [*spent, SubsampledGaussian(1.1, training.sample_rate, 1)]
    assert accountant.epsilon(spent, release.final_delta) <= 3.0 < accountant.epsilon(one_more, release.final_delta)


@pytest.mark.parametrize("given", [None, 0.05])
def test_the_learning_rate_that_training_took_is_a_fact_of_the_generator(bench, monkeypatch, given):
    from dp_synth_pipeline.model.dpsgd import descent

    took = []
    inner = descent.inner_optimizer
    monkeypatch.setattr(
        descent, "inner_optimizer", lambda w, spec, r: took.append(spec.learning_rate) or inner(w, spec, r)
    )
    settings = {} if given is None else {"learning_rate": given}
    released(bench, training={"method": "autoregressive", "max_epochs": 1, **settings})
    _, facts = generator(bench)
    assert took == [facts["learning_rate"]]
    assert given in (None, took[0])


def test_a_second_refresh_starts_warm_from_the_first_ones_weights(bench, monkeypatch):
    from dp_synth_pipeline.model.autoregressive import initialization

    before = []
    begin = initialization.begin

    def watched(*args, previous=None, **more):
        before.append(previous)
        return begin(*args, previous=previous, **more)

    monkeypatch.setattr(initialization, "begin", watched)
    warm = {"start": "warm_start", "max_epochs": 1}
    released(bench, epsilon=2.0, training=warm)
    first = generator(bench)[0].proposal
    released(bench, epsilon=2.0, training=warm)
    assert before[0] is None
    assert all((p == q).all() for p, q in zip(before[1].parameters(), first.parameters(), strict=True))
    card = json.loads((bench.store / "releasable/people/release_card.json").read_text())
    start, own = bench.ledger.releases("people")
    entries = bench.ledger.entries(release_id=start.id)
    assert {m["entry"] for m in card["reused"]} == {e.id for e in entries}, (
        "the weights show all that they were learnt by"
    )
    events = [v for e in (*bench.ledger.entries(release_id=own.id), *entries) for v in e.events]
    assert card["epsilon"] == pytest.approx(accountant.epsilon(events, own.final_delta), rel=1e-6)
    assert card["added_epsilon"] == own.final_epsilon <= 2 < 1.2 * own.final_epsilon < card["epsilon"]


def test_another_accounts_weights_are_never_a_start(bench, monkeypatch):
    from dp_synth_pipeline.model.autoregressive import initialization

    seen = []
    begin = initialization.begin
    monkeypatch.setattr(
        initialization,
        "begin",
        lambda *a, previous=None, **m: seen.append(previous) or begin(*a, previous=previous, **m),
    )
    bench.ledger.open_account("others", epsilon=10.0, delta=1e-4, why="test")
    warm = {"start": "warm_start", "max_epochs": 1}
    released(bench, epsilon=2.0, training=warm)
    result = bench.refresh(account="others", epsilon=2.0, training=warm)
    assert result.success, failure(result)
    assert seen == [None, None]


def test_a_public_table_teaches_the_network_and_costs_nothing(bench):
    people(300).to_parquet(bench.folder / "public.parquet")
    training = {"start": "public", "public": str(bench.folder / "public.parquet"), "max_epochs": 1}
    released(bench, training=training)
    assert mechanisms(bench) == ["row count", "profile", "marginals", "training"]


def test_heads_alone_learn_upon_what_a_public_table_taught(bench, monkeypatch):
    from dp_synth_pipeline.model.autoregressive import initialization

    taught, begin = [], initialization.begin

    def watched(*args, **more):
        network = begin(*args, **more)
        taught.append({name: weight.clone() for name, weight in network.state_dict().items()})
        return network

    monkeypatch.setattr(initialization, "begin", watched)
    people(300).to_parquet(bench.folder / "public.parquet")
    training = {
        "start": "public",
        "public": str(bench.folder / "public.parquet"),
        "max_epochs": 1,
        "train_only": "heads",
    }
    released(bench, training=training)
    found = generator(bench)[0].proposal.state_dict()
    for name, weight in taught[0].items():
        assert bool((found[name] == weight).all()) == ("heads" not in name), name


def test_a_public_table_with_other_columns_is_refused_by_name(bench):
    pd.DataFrame({"age": [1, 2, 3]}).to_parquet(bench.folder / "public.parquet")
    training = {"start": "public", "public": str(bench.folder / "public.parquet"), "max_epochs": 1}
    result = bench.refresh(training=training)
    assert not result.success
    assert "column" in failure(result).user_failure_data.description


def test_the_protected_source_itself_is_no_public_start(bench):
    training = {"start": "public", "public": str(bench.folder / "people.parquet"), "max_epochs": 1}
    with pytest.raises(ValidationError, match="training: public: it is the source itself"):
        bench.refresh(training=training)


def test_all_rows_of_a_public_tables_units_teach(bench, monkeypatch):
    from dp_synth_pipeline.model.autoregressive import initialization

    seen, begin = [], initialization.begin
    monkeypatch.setattr(initialization, "begin", lambda *a, **m: seen.append(a[2]) or begin(*a, **m))
    public = people(300)
    public["person"] //= 10  # units of more rows than those of the source may have
    public.to_parquet(bench.folder / "public.parquet")
    bench.ledger.open_account("units", epsilon=10.0, delta=1e-4, why="test", unit="person", max_rows=2)
    training = {"start": "public", "public": str(bench.folder / "public.parquet"), "max_epochs": 1}
    result = bench.refresh(training=training, account="units", columns={}, unit={"column": "person", "max_rows": 2})
    assert result.success, failure(result)
    (released_facts,) = seen
    assert len(released_facts.public) == 300
    assert any(len(order) > 1 for order in released_facts.orders), "numbers learn with their neighbours too"


def test_looks_that_see_no_progress_end_training_and_give_back_its_steps(bench, monkeypatch):
    from dp_synth_pipeline.model.dpsgd.loss_queries import LossQueries

    monkeypatch.setattr(LossQueries, "_falls", lambda self, deviation: len(self.answers) < 2)
    training = {"method": "autoregressive", "max_epochs": 40, "looks": 6}
    release = released(bench, training=training)
    entries = {e.mechanism: e for e in bench.ledger.entries()}
    card = json.loads((bench.store / "releasable/people/release_card.json").read_text())
    planned = 40 * card["population"] / 32  # a noisy count, from which the plan is made
    (ran,) = (e for e in entries["training"].events)
    assert 0 < ran.steps < planned / 2
    assert entries["looks"].events[0].steps == 2
    limit = accountant.rdp([v for e in entries.values() for v in e.events], release.order)
    assert release.charged_cost == pytest.approx(limit * 1e9, abs=9), "the steps that did not run are not charged"
    assert 3.9 < release.final_epsilon <= 4, "what was seen decided when to stop, so the promise is that of the plan"
    assert card["epsilon"] == release.final_epsilon
    (stage,) = (m for m in card["mechanisms"] if m["stage"] == "training")
    assert stage["planned"]["steps"] == pytest.approx(planned, rel=0.01)
    assert [look["step"] for look in card["looks"]][-1] == ran.steps
    assert len(card["looks"]) == 2, "what was charged is shown, and nothing else"
    event = bench.instance.get_latest_materialization_event(dg.AssetKey(["people", "generator"]))
    assert f"{ran.steps:,} | " in event.asset_materialization.metadata["convergence"].value
    report = (bench.store / "restricted/people/quality_report.html").read_text()
    assert "How training converged" in report
    assert f"{card['looks'][0]['loss']:.4g}" in report


def train_again(bench, training):
    definitions = bench.definitions(training=training)
    rest = [k for k in definitions.resolve_all_asset_keys() if k.path[-1] == "generator"]
    return definitions.resolve_job_def("people_refresh").execute_in_process(
        instance=bench.instance, raise_on_error=False, asset_selection=rest, run_config=QUIET
    )


def test_a_training_that_is_killed_twice_resumes_and_charges_each_step_that_started_once(bench, monkeypatch):
    from dp_synth_pipeline.model.dpsgd import descent

    step, long = descent.Descent._step, {"max_epochs": 20}

    def dying_at(last):
        def dies(self, number):
            if number == last:
                raise MemoryError
            return step(self, number)

        return dies

    with monkeypatch.context() as patched:
        patched.setattr(descent.Descent, "_step", dying_at(130))
        assert not bench.refresh(training=long).success
        (release,) = bench.ledger.releases("people")
        assert release.state == "started"
        patched.setattr(descent.Descent, "_step", dying_at(210))
        assert not train_again(bench, long).success
    again = train_again(bench, long)
    assert again.success, failure(again)
    names = ["training", "training, resumed at 150", "training, resumed at 250"]
    attempts = [e for e in bench.ledger.entries() if e.mechanism.startswith("training")]
    assert [e.mechanism for e in attempts] == names
    assert [e.steps_started for e in attempts[:2]] == [150, 100]
    assert sum(e.steps_paid for e in attempts) == math.ceil(20 / attempts[0].events[0].sample_rate)
    assert bench.ledger.releases("people")[0].final_epsilon <= 4.0
    assert bench.ledger.verify().releases == 1


def test_a_training_killed_in_its_last_steps_is_released_as_its_last_checkpoint(bench, monkeypatch):
    from dp_synth_pipeline.model.dpsgd import descent

    step, long = descent.Descent._step, {"max_epochs": 12}

    def dies_last(self, number):
        if number == self.plan.steps - 1:
            raise MemoryError
        return step(self, number)

    with monkeypatch.context() as patched:
        patched.setattr(descent.Descent, "_step", dies_last)
        assert not bench.refresh(training=long).success
    again = train_again(bench, long)
    assert again.success, failure(again)
    (attempt,) = (e for e in bench.ledger.entries() if e.mechanism.startswith("training"))
    assert attempt.steps_paid == math.ceil(12 / attempt.events[0].sample_rate)
    assert bench.ledger.releases("people")[0].state == "settled"


def test_microbatches_of_units_with_several_rows_are_refused_before_anything_is_charged(bench):
    with pytest.raises(ValueError, match="microbatch above 1 needs rows as privacy units"):
        bench.settings(unit="person", training={"microbatch": 4})


@pytest.mark.parametrize("setting", ["seed", "early_stopping", "best_checkpoint"])
def test_what_would_void_the_guarantee_is_refused_by_name(bench, setting):
    with pytest.raises(ValueError, match=setting.split("_")[0]):
        bench.settings(training={setting: 1})
