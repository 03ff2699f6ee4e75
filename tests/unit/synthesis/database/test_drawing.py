"""Whole databases: what is drawn upon which rows above, and how texts are written upon them."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.relations import relating
from dp_synth_pipeline.relations.relating import RelatedRows
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.synthesis import generator
from dp_synth_pipeline.synthesis.database import histories, learning
from dp_synth_pipeline.synthesis.database.drawing import DatabaseDrawer
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows, _carried
from dp_synth_pipeline.synthesis.database.row_by_row import Above, Following, Part
from dp_synth_pipeline.synthesis.database.table_release import TableRelease
from dp_synth_pipeline.synthesis.mechanisms.texts import coded_beside
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.tabular.sources.ingestion import UNIT


def test_static_columns_are_those_of_the_row_right_above_and_not_of_the_person():
    table = Related("drugs", None, "visits", "visit", max_rows=3, static=("dose", "email"))
    storage = dict.fromkeys(("visit", "dose", "email"), pa.string())
    schema = build(storage, {"visit": {"kind": "identifier"}, "email": {"kind": "email"}})
    codes, person = np.zeros((3, 1), np.int64), np.zeros(3, np.int64)
    visits = Rows(pa.table({"drugs.dose": ["a", None, "c"]}), codes, person, person)
    drugs = Rows(pa.table({"drug": [1, 2, 3]}), codes, np.array([1, 2, 2]), person)
    carried = _carried(table, {"visits": visits, "drugs": drugs}, schema)
    made = schema["email"].kind.generated(schema["email"], 0, 3).to_pylist()
    assert {name: cells.to_pylist() for name, cells in carried.items()} == {
        "dose": [None, "c", "c"],
        "email": [made[1], made[2], made[2]],
    }


def test_texts_are_written_upon_the_rows_above_in_the_order_in_which_they_were_counted(tmp_path, monkeypatch):
    """Two prescriptions: of the third visit, the second patient's, and of the first visit, the first patient's."""
    patient, visit, drug = Related("p", key="p"), Related("v", "v", "p", "p"), Related("d", None, "v", "v")
    relations, person = Relations([patient, visit, drug]), np.array([0, 0, 1])
    codes = {"v": np.array([[10], [11], [12]]), "p": np.array([[20], [21]]), "d": np.array([[31], [30]])}
    drawn = {
        "p": Rows(pa.table({}), codes["p"], None, np.arange(2)),
        "v": Rows(pa.table({}), codes["v"], person, person),
    }
    written = DatabaseDrawer(relations, {}, {})._codes_above(drug, drawn, np.array([2, 0]))
    path = tmp_path / "d.parquet"
    of_rows = {"how": ["first", "third"], relating.ROW: [0, 1], UNIT: [0, 1], relating.PARENT: [0, 2]}
    pq.write_table(pa.table(of_rows), path)
    release = TableRelease.__new__(TableRelease)
    release.name, release.rows = "d", RelatedRows(path, build({"how": pa.string()}, {}), 2)
    monkeypatch.setattr(TableRelease, "whole_rows", lambda self: path)
    monkeypatch.setattr(histories, "encoded", lambda table: codes[table.codec])
    tables = {name: SimpleNamespace(codec=name) for name in codes}
    release.above = histories.above_rows(release, relations, tables)  # type: ignore[arg-type]
    own = SimpleNamespace(encode=lambda rows: codes["d"][::-1])
    monkeypatch.setattr(TableRelease, "codec", own)
    counted = release.text_rows(["how"])
    assert counted.cells["how"].to_pylist() == ["first", "third"]
    assert release.text_codecs == [own, "v", "p"]
    assert counted.codes.tolist() == [[30, 10, 20], [31, 12, 21]]
    assert np.concatenate(written, 1).tolist() == [[12, 21], [10, 20]]
    other = pq.read_table(path).set_column(2, UNIT, pa.array([0, 0]))  # of rows that were swapped, two are one person's
    pq.write_table(other, tmp_path / "swapped.parquet")
    monkeypatch.setattr(TableRelease, "whole_rows", lambda self: tmp_path / "swapped.parquet")
    with pytest.raises(TrainingError, match="one row of each person"):
        release.text_rows(["how"])


def test_words_are_counted_by_columns_above_that_are_no_text():
    schema = build({"note": pa.string(), "age": pa.int64()}, {"note": {"kind": "text", "max_length": 3}})
    coded = SimpleNamespace(cardinality=2, marginal=np.array([0.5, 0.5]))
    above = SimpleNamespace(schema=schema, modelled=offsets.modelled(schema).columns, columns=[coded, coded])
    own = SimpleNamespace(schema=[], modelled=[], columns=[])
    merged, _ = coded_beside([own, above])  # type: ignore[list-item]
    assert [number for number, _ in merged] == [above.modelled.index(schema["age"])]


def test_writers_are_raked_upon_one_row_of_each_person_beside_its_own_parent():
    """Every other person has one parent with one row, the others have three with three rows each."""
    persons = np.arange(2_000)
    root = np.repeat(persons, np.where(persons % 2, 3, 1))
    parents = np.arange(len(root))
    counts = np.where(root % 2, 3, 1)
    who = [np.flatnonzero(counts > place) for place in range(3)]
    none = [np.zeros((len(w), 1), int) for w in who]
    places = [Part(w, no, parents[w][:, None], no > 0, None, None, no > 0, no) for w, no in zip(who, none, strict=True)]
    drawn = learning._Drawn.__new__(learning._Drawn)
    drawn._rng, drawn._above = np.random.default_rng(1), Above(parents[:, None], counts, None, root)
    drawn._following = SimpleNamespace(codec=SimpleNamespace(columns=[0]), parts=lambda above, rng: places)  # type: ignore
    own, above = drawn.one_row_each(rng=np.random.default_rng(2)).T
    assert (own == above).all()
    assert abs((root[own] % 2).mean() - 0.5) < 5 * 0.5 / np.sqrt(len(own))


def test_where_no_drawn_person_has_a_row_nothing_is_drawn_upon():
    none, nobody = np.zeros((0, 1), int), np.zeros(0, np.int64)
    drawn = learning._Drawn.__new__(learning._Drawn)
    drawn._rng, drawn._above = (
        np.random.default_rng(),
        Above(np.zeros((3, 1), int), np.zeros(3, int), None, np.arange(3)),
    )
    part = Part(nobody, none, none, none > 0, None, None, none > 0, np.zeros((0, 2), np.int16))
    drawn._following = Following(None, None, None, SimpleNamespace(cardinalities=(2, 3)), None, None)  # type: ignore
    drawn._parts = lambda: [part]  # type: ignore[method-assign]
    drawn._stacked = lambda codes: none  # type: ignore[method-assign]
    assert drawn.upon(None).shape == (0, 2)  # type: ignore[arg-type]


def test_no_more_texts_are_written_to_rake_their_writer_than_of_a_single_table(monkeypatch):
    """A person's rows may be many: some 8,000 persons of 30 rows each would be ten times as many."""
    raked = []
    writer = SimpleNamespace(name="note", raked=lambda codes, sizes, rng: raked.append(len(codes)))
    monkeypatch.setattr(generator.storage, "load", lambda file: [writer])
    monkeypatch.setattr(generator.text_lengths, "drawn", lambda rows, name: rows)
    release = SimpleNamespace(state=SimpleNamespace(files=SimpleNamespace(texts="texts")))
    codec = SimpleNamespace(columns=[0], decode=lambda codes, rng: codes)
    generator.raked_texts(release, codec, lambda rng: np.zeros((2 * generator.TEXTS, 3)))  # type: ignore[arg-type]
    assert raked == [generator.TEXTS]
