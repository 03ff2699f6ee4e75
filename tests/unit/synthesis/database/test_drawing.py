"""What stays as it was in a history is the same value, and not another one of the same code."""

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.synthesis.database.drawing import staying


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
