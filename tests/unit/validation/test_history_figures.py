"""What the report says of histories and across tables, on tables whose truth is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation import frames, history_figures
from dp_synth_pipeline.validation.history_figures import Compared
from dp_synth_pipeline.validation.related_figures import RelatedFigures, measure_related
from dp_synth_pipeline.validation.related_frames import RelatedFrame
from tests.integration.clinic import clinic
from tests.unit.validation.databases import RELATIONS, Frames, as_real, as_synthetic, schemas


def dealt(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return visits that are dealt to patients by chance: each table is right, and no person is."""
    rng = np.random.default_rng(1)
    visits = tables["visits"].assign(patient_id=rng.permutation(tables["visits"]["patient_id"]))
    visits = visits.sort_values(["patient_id", "visited"])
    return {**tables, "visits": visits}


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> dict[str, tuple[RelatedFigures, Frames, Frames]]:
    folder, real = tmp_path_factory.mktemp("histories"), clinic(800)
    others = {"same": real, "dealt": dealt(real), "fewer": {**real, "visits": real["visits"].iloc[::2]}}
    found, sources = {}, schemas(real, folder / "schemas")
    for name, drawn in others.items():
        frames = as_real(real, folder / name), as_synthetic(drawn, folder / f"{name}_drawn")
        found[name] = measure_related(RELATIONS, sources, *frames), *frames
    return found


def test_a_copy_of_the_real_tables_differs_in_nothing(measured) -> None:
    found = measured["same"][0]
    assert [h.table for h in found.histories] == ["visits", "drugs"]
    assert [single.distance for _, single in found.singles] == pytest.approx([0.0] * len(list(found.singles)))
    ordered = [pair.distance for where, pair in found.pairs if where != "drugs, before and after"]
    assert ordered == pytest.approx([0.0] * len(ordered))  # drugs of a visit have no order, so theirs is by chance
    assert found.histories[0].all[0] == 0


def test_rows_dealt_to_persons_by_chance_are_right_table_by_table_and_poor_as_histories(measured) -> None:
    found = measured["dealt"][0]
    assert found.tables["visits"].fidelity.verdict == "excellent"
    assert found.verdict == "poor"
    visits = found.histories[0]
    assert visits.rows.fidelity.distance == 0
    assert visits.gap is not None
    assert visits.gap.fidelity.distance > 0.3
    ward = next(step for step in visits.steps if step.pair.left == "ward")
    assert ward.stays_real == 1
    assert ward.stays_synthetic == pytest.approx(0.38, abs=0.06)  # .5² + .3² + .2²
    assert visits.coherence is not None
    assert visits.coherence.reached < visits.coherence.best - 0.05


def test_numbers_of_rows_count_those_who_have_none(measured) -> None:
    found = measured["fewer"][0].histories[0]
    shares = dict(zip(found.rows.panel.labels, found.rows.panel.real, strict=True))
    counts = clinic(800)["visits"].groupby("patient_id").size()
    assert shares["0"] == pytest.approx((800 - len(counts)) / 800, abs=1e-6)
    assert found.mean_synthetic == pytest.approx(found.mean_real / 2, rel=0.01)
    assert found.rows.fidelity.distance > 0.3


def parts(values: pd.Series, real: pd.Series, parts: int) -> np.ndarray:
    """Return cells of a number line by the quantiles of the real values, or those of names."""
    if not pd.api.types.is_numeric_dtype(values):
        return pd.Index(sorted(real.unique())).get_indexer(pd.Index(values))
    edges = np.unique(np.quantile(real, np.linspace(0, 1, parts + 1)[1:-1]))
    return np.searchsorted(edges, values.to_numpy(), side="left")


def apart(real: list[np.ndarray], synthetic: list[np.ndarray]) -> float:
    """Return the total variation distance of joint cells, by their definition."""
    shares = [pd.Series(list(zip(*cells, strict=True))).value_counts(normalize=True) for cells in (real, synthetic)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def visits_of(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    found = tables["visits"].merge(tables["patients"], on="patient_id")
    for name in ("visited", "born"):
        found[name] = (pd.to_datetime(found[name]) - pd.Timestamp("1970-01-01")).dt.days
    return found.sort_values(["patient_id", "visited"], kind="stable").reset_index(drop=True)


def test_distances_are_those_of_their_definitions_computed_another_way(measured) -> None:
    """Of steps: each column before with each after; of gaps; of a child's columns with its parent's."""
    real, drawn = visits_of(clinic(800)), visits_of(dealt(clinic(800)))
    found, own = measured["dealt"][0], ("visited", "ward", "score")
    cells = {c: (parts(real[c], real[c], 10), parts(drawn[c], real[c], 10)) for c in own}
    steps = [np.flatnonzero(np.diff(t["patient_id"]) == 0) + 1 for t in (real, drawn)]
    expected = [
        apart(*([cells[a][side][after - 1], cells[b][side][after]] for side, after in enumerate(steps)))
        for a, b in product(own, own)
    ]
    assert found.histories[0].all[0] == pytest.approx(np.mean(expected), abs=1e-9)
    gaps = [
        t["visited"].to_numpy()[i] - t["visited"].to_numpy()[i - 1] for t, i in zip((real, drawn), steps, strict=True)
    ]
    edges = np.unique(np.quantile(gaps[0], np.linspace(0, 1, 21)[1:-1]))
    gap = apart(*([np.searchsorted(edges, g)] for g in gaps))
    assert found.histories[0].gap.fidelity.distance == pytest.approx(gap, abs=1e-9)
    persons = clinic(800)["patients"]
    born = (pd.to_datetime(persons["born"]) - pd.Timestamp("1970-01-01")).dt.days
    beside = {
        "born": (parts(real["born"], born, 10), parts(drawn["born"], born, 10)),
        "sex": (parts(real["sex"], real["sex"], 10), parts(drawn["sex"], real["sex"], 10)),
    }
    expected = [apart(*([beside[a][side], cells[b][side]] for side in (0, 1))) for a, b in product(beside, own)]
    link = next(one for one in found.links if (one.child, one.parent) == ("visits", "patients"))
    assert link.mean[0] == pytest.approx(np.mean(expected), abs=1e-9)


def test_a_grandchild_stands_beside_its_parent_and_the_root(measured) -> None:
    found = measured["dealt"][0]
    assert [(one.child, one.parent) for one in found.links] == [
        ("visits", "patients"),
        ("drugs", "visits"),
        ("drugs", "patients"),
    ]
    near, far = found.links[1:]
    assert near.mean[0] == pytest.approx(0, abs=1e-9)  # visits took their drugs along
    assert far.mean[0] > 0.01


def test_numbers_of_rows_of_a_person_are_told_jointly(measured) -> None:
    (same,), (moved,) = measured["same"][0].together, measured["dealt"][0].together
    assert (same.pair.left, same.pair.right) == ("rows of visits", "rows of drugs")
    assert same.pair.distance == 0
    assert moved.pair.distance > 0.05  # as many visits of each person, with others' drugs
    assert sum(map(sum, moved.shares.real)) == pytest.approx(1)


def test_chance_is_that_of_whole_persons(measured) -> None:
    """Persons are drawn again with all that is theirs: a ward that never changes makes chance as large as theirs."""
    found, real, _ = measured["same"]
    ward = next(s for s in found.histories[0].steps if s.pair.left == "ward")
    assert 0.003 < ward.pair.baseline < 0.12
    assert len(real["patients"].person) == 800


def test_tables_without_rows_or_columns_are_told_and_break_nothing(tmp_path) -> None:
    real = clinic(60)
    drawn = {**real, "drugs": real["drugs"].iloc[:0]}
    sources = schemas(real, tmp_path / "schemas")
    synthetic = as_synthetic(real, tmp_path / "drawn")
    found = measure_related(RELATIONS, sources, as_real(real, tmp_path / "real"), synthetic)
    assert set(found.tables) == set(real)
    empty = as_synthetic({n: t.astype(real[n].dtypes) for n, t in drawn.items()}, tmp_path / "none")
    found = measure_related(RELATIONS, sources, as_real(real, tmp_path / "again"), empty)
    assert set(found.tables) == {"patients", "visits"}
    assert found.rows["drugs"][1] == 0
    assert found.histories[1].steps == []
    assert found.histories[1].coherence is None
    assert found.histories[1].rows.fidelity.distance > 0.3
    gone = {**drawn, "visits": real["visits"].iloc[:0]}
    empty = as_synthetic({n: t.astype(real[n].dtypes) for n, t in gone.items()}, tmp_path / "no_visit")
    found = measure_related(RELATIONS, sources, as_real(real, tmp_path / "once_more"), empty)
    assert [one.table for one in found.histories] == ["visits"]
    assert set(found.tables) == {"patients"}


def test_the_same_tables_give_the_same_figures(tmp_path) -> None:
    real = clinic(60)
    frames = as_real(real, tmp_path / "real"), as_synthetic(real, tmp_path / "drawn")
    sources = schemas(real, tmp_path / "schemas")
    first, again = (measure_related(RELATIONS, sources, *frames) for _ in range(2))
    assert first.histories == again.histories
    assert first.links == again.links
    assert first.gaps == again.gaps


def test_a_length_of_time_from_row_to_row_that_64_bits_do_not_hold_is_compared_at_their_end() -> None:
    def rows(micros: list[int]) -> RelatedFrame:
        person = np.array([0, 0, 1, 1])
        return RelatedFrame(frames.plain(pa.table({"at": pa.array(micros, pa.int64())})), person, person)

    far, near = rows([-(2**62), 2**62 + 5, 2**63 - 1, -(2**63)]), rows([1, 2, 3, 4])
    child = Compared(build({"at": pa.duration("us")}), far, near, np.array([1, 1]))
    table = Related("visits", None, "patients", "patient_id", "at", max_rows=5)
    gap = history_figures._gap(table, child)
    assert gap.fidelity.distance == 1
    assert sum(gap.panel.real) == pytest.approx(1)
