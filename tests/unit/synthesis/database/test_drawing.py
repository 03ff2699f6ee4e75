"""What stays as it was in a history is the same value, and not another one of the same code."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.synthesis.database.drawing import Following, staying
from dp_synth_pipeline.tabular.relations.structure import Related
from dp_synth_pipeline.tabular.schema import build


def test_a_value_that_stays_is_the_one_before_though_its_code_stands_for_several():
    values = pa.table({"team": ["a", "b", "c", "d", "e"], "games": [1, 2, 3, 4, 5]})
    stays = np.array([[False, False], [True, False], [True, False], [False, False], [True, False]])
    drawn = staying(values, ["team", "games"], stays)
    assert drawn.to_pydict() == {"team": ["a", "a", "a", "d", "d"], "games": [1, 2, 3, 4, 5]}


def test_in_a_person_s_first_row_nothing_stays_whatever_was_drawn():
    context = Context.of([np.ones(1)], [np.full(3, 1 / 3)], rows=4, categories=([0], [0]))
    drawn, repeat = np.array([[3], [3], [1]]), 3
    assert context.own_cardinalities == (repeat + 1,)
    assert context.stays(drawn, np.array([[-1], [2], [2]])).tolist() == [[False], [True], [False]]
    assert context.absolute(drawn, np.array([[-1], [2], [2]])).tolist() == [[0], [2], [1]]


def test_no_row_lies_beyond_the_declared_end_of_the_order_and_without_one_rows_lie_where_they_were_drawn(monkeypatch):
    """Distances of 0 to 99 are drawn, by persons with room for half of them, for none, for all, and by a last row."""
    visits, rows, rng = Related("visits", order="day", max_rows=9), 4000, np.random.default_rng(1)
    follow = lambda given, forbidden, rng: rng.integers(0, 100, (len(given), 1))  # noqa: E731
    model, codec = SimpleNamespace(follow=follow), SimpleNamespace(forbidden={})
    context = SimpleNamespace(stays=np.equal, absolute=lambda drawn, before: drawn)
    monkeypatch.setattr(Following, "_gaps", lambda self, codes, rng: codes[:, 0].copy())
    given, before = np.zeros((rows, 1), np.int64), np.full((rows, 1), -1)
    times, left = np.tile([50, 100, 0, 100], rows // 4), np.tile([3, 1, 1, 0], rows // 4)
    for upper, ends in (({"upper": 100}, [50, 0, 99, 99]), ({}, [99, 99, 99, 99])):
        schema = build({"day": pa.int64()}, {"day": {"kind": "integer", **upper}})
        following = Following(visits, model, codec, context, codec, schema["day"])  # type: ignore[arg-type]
        codes, _, gaps = following._next(given, before, following._room(times, left), left, rng)
        assert all((gaps[i::4] <= end).all() for i, end in enumerate(ends))
        fits = codes[:, 0] <= np.tile(ends, rows // 4)
        assert (gaps[fits] == codes[fits, 0]).all()
        if upper:
            three_left = gaps[0::4][~fits[0::4]]
            assert 10 < three_left.mean() < 14, (
                "the first of three, anywhere within 50 days: after 12.5 of them in the mean"
            )
