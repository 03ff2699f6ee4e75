"""Related tables that remember: what a refresh of them measures, charges, combines, starts from and says."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd
import pytest

from dp_synth_pipeline import cli
from dp_synth_pipeline.ledger import Entry, Ledger
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.marginals import storage
from dp_synth_pipeline.model.marginals.measuring import Marginals
from dp_synth_pipeline.model.marginals.remembering import Memory
from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis import generator_files, memory, profile_cache
from dp_synth_pipeline.synthesis.database import histories, learning
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.synthesizer import Synthesizer, SyntheticTables
from tests.integration.clinic import clinic

FIRST, LATER = 12.0, 0.5
RELATIONS: dict[str, dict[str, Any]] = {
    "patients": {"key": "patient_id"},
    "visits": {"key": "visit_id", "parent": {"patient_id": "patients"}, "order": "visited", "max_rows": 6},
}
REMEMBER = {"remember": True, "epsilon": LATER}


def tables() -> dict[str, pd.DataFrame]:
    """The clinic, of which a visit's score hangs on the patient's sex, and mostly stays as it was in the visit before.

    Nobody declares that patients leave some days after they come, so that this is found by a count.
    """
    found = clinic(1200)
    visits = found["visits"].merge(found["patients"], on="patient_id")
    level = visits["patient_id"] % 3
    visits["score"] = np.where(visits["sex"] == "F", 10.0, 20.0) + level + np.arange(len(visits)) % 7 // 6
    visits["left"] = (pd.to_datetime(visits["visited"]) + pd.to_timedelta(visits.index % 5, unit="D")).dt.date
    return {"patients": found["patients"], "visits": visits.drop(columns=["sex", "born"])}


class Place:
    def __init__(self, folder: Path) -> None:
        self.ledger, self.store = Ledger.open(f"sqlite:///{folder}/ledger.db"), Store(folder / "store")
        self.ledger.open_account("clinic", epsilon=60.0, delta=1e-4, unit="patient_id", why="test")
        self.folder = self.store.releasable("clinic")

    def fit(self, data: Any = None, *, resume: str = "", epsilon: float = FIRST, **changes: Any) -> SyntheticTables:
        terms = {"refresh": REMEMBER, "training": {"max_epochs": 1, "hidden": 8}, **changes}
        fitter = Synthesizer("clinic", epsilon, self.ledger, table="clinic", store=self.store, show=False, **terms)
        return fitter.fit(tables() if data is None else data, relations=RELATIONS, resume=resume)

    @property
    def releases(self) -> list[LedgerRelease]:
        return list(self.ledger.releases("clinic"))

    def entries(self, number: int) -> list[Entry]:
        return list(self.ledger.entries(release_id=self.releases[number].id))

    def learnt(self, table: str) -> Generator:
        found, _ = artifact.load(self.folder / table / generator_files.FOLDER)
        assert isinstance(found, Generator)
        return found

    def known(self, table: str) -> tuple[Memory, list[str]]:
        generator = self.folder / table / generator_files.FOLDER
        found = storage.load_memory(generator / generator_files.MEMORY)
        return found, generator_files.facts(generator)["memory"]["releases"]


class Refreshed:
    """Two releases that remember, and what was there after the first of them."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder)
        self.first = self.place.fit()
        self.networks = {name: self.place.learnt(name).proposal for name in RELATIONS}
        self.before = {name: self.place.known(name)[0] for name in RELATIONS}
        self.described = json.loads((self.place.folder / generator_files.DATABASE).read_text())
        self.profiles = self.texts_of_profiles()
        self.measured: list[Marginals] = []
        updated = Memory.updated
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Memory, "updated", lambda known, new: self.measured.append(new) or updated(known, new))
            self.second = self.place.fit()

    def texts_of_profiles(self) -> dict[str, str]:
        return {n: (self.place.folder / n / generator_files.FOLDER / "profile.json").read_text() for n in RELATIONS}


def test_numbers_neither_stay_nor_move_where_what_rows_are_drawn_upon_is_counted(
    refreshed: Refreshed, tmp_path: Path
) -> None:
    kept = generator_files.facts(refreshed.place.folder / "visits" / generator_files.FOLDER)
    context = histories.kept_context(tmp_path, kept)
    assert (context.numbers, context.moving) == ((), ())


@pytest.fixture(scope="module")
def refreshed(tmp_path_factory: pytest.TempPathFactory) -> Refreshed:
    return Refreshed(tmp_path_factory.mktemp("remembering"))


def test_a_refresh_measures_again_what_the_first_release_measured_and_trains_nothing(refreshed: Refreshed) -> None:
    place = refreshed.place
    first, second = place.releases[:2]
    charged = {e.mechanism for e in place.entries(0)}
    assert charged >= {"static columns of patients", "ordered dates of visits", "marginals of visits"}
    assert "left: after visited" in refreshed.profiles["visits"], (
        "what was found of dates is not looked for again either"
    )
    assert (first.epsilon, second.epsilon) == (FIRST, LATER)
    entries = place.entries(1)
    assert [e.mechanism for e in entries] == ["marginals of patients", "marginals of visits"]
    assert 0.98 * LATER < (second.final_epsilon or 0) <= LATER
    assert refreshed.texts_of_profiles() == refreshed.profiles
    described = json.loads((place.folder / generator_files.DATABASE).read_text())
    assert described["tables"] == refreshed.described["tables"]
    assert "ward" in described["tables"][1]["static"], "it was found by the first release, and is not looked for again"
    for entry, (name, new) in zip(entries, zip(RELATIONS, refreshed.measured, strict=True), strict=True):
        (event,) = entry.events
        assert isinstance(event, Gaussian)
        learnt, before = place.learnt(name), refreshed.before[name]
        weights = zip(learnt.proposal.parameters(), refreshed.networks[name].parameters(), strict=True)
        assert all((p == q).all() for p, q in weights)
        assert learnt.tilt is not None
        assert learnt.tilt.layout == before.layout == new.layout
        assert new.scale == pytest.approx(event.noise_multiplier * len(new.layout.cliques) ** 0.5, rel=1e-6)
        known, releases = place.known(name)
        alone = before.updated(new)  # a function of released numbers, with no row in reach
        assert np.array_equal(known.shares, alone.shares)
        assert np.array_equal(known.variance, alone.variance)
        assert releases == [first.id, second.id]


def test_the_tables_promise_what_all_that_they_are_a_function_of_promises_together(refreshed: Refreshed) -> None:
    place = refreshed.place
    first, second = place.releases[:2]
    for entry in place.entries(1):
        assert set(entry.upon or ()) >= {e.id for e in place.entries(0)}
    events = [v for number in (0, 1) for e in place.entries(number) for v in e.events]
    card = refreshed.second.card()
    assert card.facts.epsilon == pytest.approx(accountant.epsilon(events, second.final_delta or 0), rel=1e-6)
    assert card.facts.added_epsilon == second.final_epsilon
    assert card.facts.added_epsilon < (first.final_epsilon or 0) < card.facts.epsilon == refreshed.second.epsilon
    assert {m["release"] for m in card.facts.reused} == {first.id}
    for name in RELATIONS:
        assert any(
            s.startswith(f"{name}: Noisy counts of earlier releases") and first.id[:12] in s for s in card.limits
        )


def test_what_is_counted_of_visits_speaks_of_persons_and_of_pairs_with_what_a_visit_hangs_on(
    refreshed: Refreshed,
) -> None:
    known, real = refreshed.before["visits"], tables()["visits"]
    persons = real["patient_id"].nunique()
    assert known.rows.mean == pytest.approx(persons, abs=6 * known.rows.variance**0.5 + 1)
    network = refreshed.networks["visits"]
    assert all(clique[-1] >= network.given for clique in known.layout.cliques)
    assert any(clique[0] < network.given for clique in known.layout.cliques)


def test_as_many_persons_are_drawn_as_the_noisy_counts_of_all_releases_tell(refreshed: Refreshed) -> None:
    alone = refreshed.before["patients"].updated(refreshed.measured[0])
    assert len(refreshed.second.sample()["patients"]) == alone.marginals.rows


def missed(drawn: dict[str, pd.DataFrame], real: dict[str, pd.DataFrame]) -> float:
    """Return how far drawn visits are from real ones: each's score with the patient's sex, and with the one before."""

    def shares(of: dict[str, pd.DataFrame], *columns: str) -> pd.Series:
        visits = (
            of["visits"].merge(of["patients"], on="patient_id").sort_values(["patient_id", "visited"], kind="stable")
        )
        before = visits.groupby("patient_id")["score"].shift()
        return visits.assign(before=before).groupby(list(columns)).size() / len(visits)

    pairs = (("score", "sex"), ("score", "before"))
    each = [shares(drawn, *pair).sub(shares(real, *pair), fill_value=0).abs().sum() / 2 for pair in pairs]
    return float(np.mean(each))


def test_a_refresh_at_a_small_epsilon_is_nearer_to_the_tables_than_one_by_itself(
    refreshed: Refreshed, tmp_path: Path
) -> None:
    real = tables()
    alone = Place(tmp_path).fit(epsilon=LATER, refresh={})
    goes_on = missed(refreshed.second.sample(1200), real)
    assert goes_on < 0.7 * missed(alone.sample(1200), real)
    assert goes_on < 1.2 * missed(refreshed.first.sample(1200), real), "little noise is added to what was known"


def test_a_profile_that_a_person_renews_has_the_next_release_ask_for_the_larger_epsilon(
    refreshed: Refreshed, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, asked = refreshed.place, {n: {**f, "source": f"{n}.parquet"} for n, f in RELATIONS.items()}
    settings = DatabaseSettings(database="clinic", account="clinic", epsilon=FIRST, refresh=REMEMBER, tables=asked)
    text = (place.folder / "visits" / profile_cache.FACTS).read_text()

    def reserved(key: str) -> float:
        release = DatabaseRelease.reserve(settings, place.ledger, place.store, key=key, run_id=key)
        epsilon = release.record.epsilon
        release.protection.void(release.id, "test")
        return epsilon

    assert reserved("as it is") == LATER
    monkeypatch.setenv("DP_SYNTH_HOME", str(place.store.root.parent))
    monkeypatch.setattr(sys, "argv", ["dp-synth", "profile", "renew", "clinic/visits", "--why", "test"])
    with suppress(SystemExit):
        cli.main()
    assert reserved("renewed") == FIRST
    (place.folder / "visits" / profile_cache.FACTS).write_text(text)


def test_a_refresh_that_is_killed_between_two_tables_goes_on_without_a_further_charge(
    refreshed: Refreshed, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, learn = refreshed.place, learning.learn

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "learn", killed)
    with pytest.raises(KeyboardInterrupt):
        place.fit()
    release = place.releases[-1]
    assert release.state == "started"
    entries = place.entries(-1)
    monkeypatch.setattr(learning, "learn", learn)
    place.fit(resume=release.id)
    assert [e.id for e in place.entries(-1)] == [e.id for e in entries]
    assert place.known("visits")[1][-1] == release.id
    assert place.known("visits")[1] == place.known("patients")[1]


def test_a_table_with_other_columns_begins_anew_the_other_goes_on_and_the_card_says_why(tmp_path: Path) -> None:
    place, real = Place(tmp_path), tables()
    place.fit()
    fewer = {**real, "visits": real["visits"].drop(columns="score")}
    with pytest.warns(UserWarning, match="visits: this refresh begins anew"):
        card = place.fit(fewer).card()
    charged = {e.mechanism for e in place.entries(1)}
    assert {m for m in charged if m.endswith("of patients")} == {"marginals of patients"}
    assert charged >= {"profile of visits", "marginals of visits", "training of visits"}
    assert any("visits: This release begins anew" in s and memory.OTHER_CODES in s for s in card.limits)
    first, second = place.releases
    assert place.known("visits")[1] == [second.id]
    assert place.known("patients")[1] == [first.id, second.id]
    assert second.epsilon == LATER
    assert (second.final_epsilon or 0) <= LATER < card.facts.epsilon


def test_a_table_that_is_another_one_by_now_begins_anew_and_counts_what_told_it_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.fit()
    monkeypatch.setattr(Memory, "lost", property(lambda known: known.layout == place.known("visits")[0].layout))
    with pytest.warns(UserWarning, match="visits: this refresh begins anew"):
        card = place.fit().card()
    first, second = place.releases
    assert [e.mechanism for e in place.entries(1)] == ["marginals of patients", "marginals of visits"]
    assert any(s.startswith("visits: ") and memory.DRIFTED in s for s in card.limits)
    assert {m["release"] for m in card.facts.reused} == {first.id}
    assert place.known("visits")[1] == [second.id]
    assert place.known("patients")[1] == [first.id, second.id]


def test_the_assets_of_tables_that_remember_count_them_all_and_check_how_far_each_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = 2.0  # at LATER, the noise of so few patients passes for a move of one row in twenty in one run of a hundred
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    data = tables()
    data["patients"].to_csv(tmp_path / "patients.csv", index=False)  # whose types are measured, and known from then on
    data["visits"].to_parquet(tmp_path / "visits.parquet", index=False)
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ledger.open_account("clinic", epsilon=60.0, delta=1e-4, unit="patient_id", why="test")
    files = {"patients": "patients.csv", "visits": "visits.parquet"}
    asked = {n: {**f, "source": str(tmp_path / files[n])} for n, f in RELATIONS.items()}
    settings = RelatedTablesSettings(
        database="clinic",
        account="clinic",
        epsilon=FIRST,
        refresh={"remember": True, "epsilon": later},
        tables=asked,
        training={"max_epochs": 1, "hidden": 8},
    )
    definitions = build_defs([settings])
    for _ in range(2):
        outcome = in_process.refresh(definitions, "clinic")
        assert outcome.exit_code == 0, outcome.message
    first, second = ledger.releases("clinic")
    assert (first.epsilon, second.epsilon) == (FIRST, later)
    assert "types of patients" in {e.mechanism for e in ledger.entries(release_id=first.id)}
    assert len(ledger.entries(release_id=second.id)) == 2
    keys = definitions.resolve_job_def("clinic_refresh").asset_layer.selected_asset_keys
    assert dg.AssetKey(["clinic", "visits", "marginals"]) in keys
    for name in RELATIONS:
        checks = json.loads((tmp_path / f"store/releasable/clinic/{name}/checks.json").read_text())
        (drift,) = [c for c in checks if c["name"] == "drift"]
        assert drift["passed"]
        assert not drift["blocking"]
        assert 0 <= drift["observed"]["moved"] < 0.05
    card = json.loads((tmp_path / "store/releasable/clinic/release_card.json").read_text())
    assert card["epsilon"] > (first.final_epsilon or 0)


def test_rows_follow_a_table_that_moves_in_part(tmp_path: Path, whole_fits: None) -> None:
    """Women had the high scores mostly, and hardly more often than men by now. Raking keeps near to the last network."""

    def split(women: float) -> dict[str, pd.DataFrame]:
        found, rng = tables(), np.random.default_rng()
        sex = found["visits"]["patient_id"].map(found["patients"].set_index("patient_id")["sex"])
        high = rng.random(len(sex)) < np.where(sex == "F", women, 1 - women)
        return {**found, "visits": found["visits"].assign(score=np.where(high, 20.0, 10.0))}

    def apart(drawn: dict[str, pd.DataFrame]) -> float:
        visits = drawn["visits"].merge(drawn["patients"], on="patient_id")
        high = (visits["score"] > 15).groupby(visits["sex"]).mean()
        return float(high["F"] - high["M"])

    place, how = Place(tmp_path), {"refresh": {"remember": True, "epsilon": FIRST}}
    before = apart(place.fit(split(0.75), **how).sample(4000))
    after = apart(place.fit(split(0.55), **how).sample(4000))
    assert before > 0.35
    assert after < before - (before - 0.1) / 3
    assert len(place.known("visits")[1]) == 2, "it goes on from the first release"
