"""Each parameter of training has one flat name, which each version's files and frozen terms are read by."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.synthesis import terms
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.settings import ReleaseSettings, terms_version
from dp_synth_pipeline.synthesis.training_settings import SELECTIONS, TrainingSettings, TuneSettings


def settings(**training: Any) -> ReleaseSettings:
    return ReleaseSettings(table="t", source="t.csv", account="a", epsilon=1.0, training=training)  # type: ignore[arg-type]


def test_each_parameter_of_the_generator_is_a_setting_with_the_same_default() -> None:
    names = {f.name for f in fields(GeneratorSpec)}
    assert names == TrainingSettings.model_fields.keys() - {"purpose", "public", "tune"}
    assert TrainingSettings().spec() == GeneratorSpec()


def test_a_setting_reaches_the_generator_as_the_type_that_it_has() -> None:
    spec = settings(learning_rate="1e-3", looks=6, rake=False).training.spec()  # YAML takes 1e-3 for a text
    assert (spec.learning_rate, spec.looks, spec.rake) == (0.001, 6, False)


@pytest.mark.parametrize("start", ["public", "warm_start"])
def test_heads_alone_are_trained_where_the_layers_before_them_have_learnt_elsewhere(start: str) -> None:
    training = settings(start=start, public="public.csv", train_only="heads").training
    assert training.spec().train_only == "heads"
    assert TrainingSettings.of_terms(training.terms()) == training


@pytest.mark.parametrize("start", ["marginals", "random", "mean_var"])
def test_heads_alone_are_not_trained_upon_layers_that_have_learnt_nothing(start: str) -> None:
    with pytest.raises(ValueError, match="write start: public or start: warm_start, or remove it"):
        settings(start=start, train_only="heads")


def test_heads_alone_are_not_trained_by_a_method_that_trains_nothing() -> None:
    with pytest.raises(ValueError, match="method: marginals trains nothing"):
        settings(start="warm_start", method="marginals", train_only="heads")


def test_what_is_out_of_range_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="training: batch_share must be finite and above 0, got 0"):
        settings(batch_share=0)


def test_the_spelling_of_earlier_versions_works_and_says_what_replaces_it() -> None:
    with pytest.warns(FutureWarning, match="write hidden, looks under training itself"):
        earlier = settings(max_epochs=3, settings={"hidden": 8, "looks": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        now = settings(max_epochs=3, hidden=8, looks=2)
    assert earlier == now
    with pytest.raises(ValueError, match="hidden: `settings` says so too"):
        settings(hidden=4, settings={"hidden": 8})


def test_a_wrong_name_in_either_spelling_is_refused() -> None:
    for wrong in ({"learning_rat": 1}, {"settings": {"learning_rat": 1}}, {"settings": 3}):
        with pytest.raises(ValueError, match="Extra inputs"), warnings.catch_warnings(action="ignore"):
            settings(**wrong)


BEFORE = {"purpose": "analytics", "max_epochs": 3, "method": "hybrid", "start": "marginals", "public": None}
"""What the version before kept of `training` as terms, beside its `settings`."""


@pytest.mark.parametrize("nested", [{"hidden": 8}, {"hidden": 8, "looks": 0}, {"hidden": 8, "max_epochs": 3}])
def test_a_release_that_the_version_before_began_goes_on_and_a_change_is_named(
    nested: dict[str, Any], tmp_path: Path
) -> None:
    """It kept what a person wrote, a default too."""
    asked = settings(max_epochs=3, hidden=8)
    kept = asked.terms() | {"training": {**BEFORE, "settings": nested}}
    book = Ledger.open(str(tmp_path / "ledger.db"))
    book.open_account("a", epsilon=2.0, delta=1e-5, why="test")
    release = book.reserve(
        "a", key="k", table="t", run_id="r", code_version=terms_version(kept), epsilon=1.0, delta=1e-6
    )
    state = RunState(release.id, terms=kept)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert terms.of_release(asked, state, release) == asked
        with pytest.raises(ReleaseStateError, match=r"^training\.hidden, training\.looks changed since"):
            terms.of_release(settings(max_epochs=3, hidden=4, looks=5), state, release)
        book.void(release.id, why="test")
        ended = next(r for r in book.releases("a") if r.id == release.id)
        assert terms.of_release(settings(hidden=4), state, ended).training == asked.training


def test_the_hash_of_what_is_asked_is_that_of_the_version_before_in_either_spelling() -> None:
    with warnings.catch_warnings(action="ignore"):
        earlier = settings(max_epochs=3, settings={"hidden": 8})
    assert earlier.code_version() == settings(max_epochs=3, hidden=8).code_version()
    assert settings(max_epochs=3, hidden=8).terms()["training"] == {**BEFORE, "settings": {"hidden": 8}}
    assert settings(max_epochs=3).terms()["training"] == {**BEFORE, "settings": {}}


def test_what_selects_on_a_private_loss_is_refused_with_what_does_the_same_at_a_price() -> None:
    for name, instead in SELECTIONS.items():
        with pytest.raises(ValueError, match=f"training: {name}: .*no epsilon would cover") as caught:
            settings(**{name: 3})
        assert instead in str(caught.value)
        (advised,) = re.findall(r"training: {(\w+):", instead)
        assert advised in TrainingSettings.model_fields


STUDY: Any = {"trials": 4, "learning_rate": [0.003, 0.03]}


@pytest.mark.parametrize(
    ("training", "told"),
    [
        ({"tune": {"trials": 4}}, "expected the range of a setting to draw"),
        ({"tune": {"learning_rate": [0.03, 0.003]}}, "the smaller one first"),
        ({"tune": {"averaging": [0.5, 1.5]}}, "averaging must lie between 0 and 1"),
        ({"tune": {"learning_rate": [0.0, 0.03]}}, "learning_rate must be finite and above 0"),
        ({"tune": {"max_epochs": [10, 30]}}, "Extra inputs"),
        ({"tune": STUDY | {"trials": 21}}, "less than or equal to 20"),
        ({"tune": STUDY, "method": "marginals"}, "which trains nothing"),
        ({"tune": STUDY, "looks": 6}, "looks, which end a training early"),
        ({"tune": STUDY, "noise_multiplier": 2.0}, "noise_multiplier, since"),
        ({"tune": STUDY, "learning_rate": 0.01}, "learning_rate, which it draws"),
    ],
)
def test_a_study_that_cannot_be_is_refused_with_what_stands_against_it(training: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        settings(**training)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"plan": "weekly"}, "plan, which declares one training"),
        ({"refresh": {"remember": True}}, "refresh: remember, which trains once"),
        ({"account": None, "epsilon": None, "privacy": "none", "public": {"by": "A", "why": "b"}}, "privacy: none"),
    ],
)
def test_a_study_is_refused_beside_what_trains_otherwise(facts: dict, told: str) -> None:
    asked: dict[str, Any] = {"source": "t.csv", "table": "t", "account": "t", "epsilon": 3.0} | facts
    with pytest.raises(ValueError, match=told):
        ReleaseSettings(**asked, training={"tune": STUDY})  # type: ignore[arg-type]


def test_related_tables_have_no_study() -> None:
    tables: Any = {"p": {"source": "p.csv"}}
    with pytest.raises(ValueError, match="a study is of a single table"):
        DatabaseSettings(account="a", epsilon=1.0, tables=tables, training=TrainingSettings(tune=STUDY))


def test_terms_of_a_study_are_read_back_as_they_were_and_are_no_terms_without_one() -> None:
    asked = TrainingSettings(tune=STUDY)
    assert TrainingSettings.of_terms(json.loads(json.dumps(asked.terms()))) == asked
    assert TrainingSettings(**asked.model_dump(mode="json")) == asked
    assert "tune" not in json.dumps(TrainingSettings().terms())


def test_a_trial_draws_its_settings_evenly_from_their_ranges() -> None:
    tune, rng = TuneSettings(averaging=[0.2, 0.6], **STUDY), np.random.default_rng()
    drawn = [tune.drawn(rng) for _ in range(4_000)]
    rates, parts = (np.array([d[name] for d in drawn]) for name in ("learning_rate", "averaging"))
    assert 0.003 <= rates.min() < 0.0035 < 0.026 < rates.max() <= 0.03
    assert np.log10(rates).mean() == pytest.approx(np.log10(0.003) + 0.5, abs=0.03)  # 6 deviations of the mean
    assert parts.mean() == pytest.approx(0.4, abs=0.012)
