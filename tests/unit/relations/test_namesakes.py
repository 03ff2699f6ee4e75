"""Numbers of two tables are paired by what everybody may see of them: their names and how they are stored."""

import pyarrow as pa
import pytest

from dp_synth_pipeline.relations.namesakes import pairs
from dp_synth_pipeline.tabular.schema import build


def columns(**types: pa.DataType):
    return list(build({**types, "town": pa.string()}, {}).columns)[:-1]


WHOLE, PART, DAY = pa.int64(), pa.float64(), pa.date32()


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ({"amount": PART, "fee": PART}, {"fee": PART, "amount": PART}, {"amount": "amount", "fee": "fee"}),
        ({"paid_amount": PART, "fee": PART}, {"amount": PART, "tax": PART}, {"paid_amount": "amount", "fee": "tax"}),
        ({"amount": PART}, {"total": PART}, {"amount": "total"}),
        ({"amount": PART, "pieces": WHOLE}, {"total": PART, "lines": WHOLE}, {"amount": "total", "pieces": "lines"}),
        ({"amount": PART}, {"total": PART, "tax": PART}, {}),
        ({"amount": PART}, {"total": WHOLE}, {}),
        ({"amount": PART}, {"amount": WHOLE}, {}),
        ({"amount": PART, "net_amount": PART}, {"amount": PART, "x": PART, "y": PART}, {"amount": "amount"}),
        ({"a_hr": WHOLE, "bb": WHOLE}, {"a_po": WHOLE, "dp": WHOLE}, {}),
        ({"hr": WHOLE, "bb": WHOLE}, {"po": WHOLE, "dp": WHOLE}, {}),
        ({"day": DAY, "seen_day": DAY}, {"day": DAY, "paid_day": DAY}, {"day": "day"}),
        ({"paid": DAY}, {"ordered": DAY}, {}),
        ({}, {"total": PART}, {}),
        ({"amount": PART}, {}, {}),
    ],
)
def test_whole_names_come_before_words_and_the_only_ones_left_are_paired(own, other, expected):
    assert pairs(columns(**own), columns(**other)) == expected


def test_no_column_is_paired_twice():
    found = pairs(columns(total_a=WHOLE, total_b=WHOLE, total_c=WHOLE), columns(total=WHOLE, sub_total=WHOLE))
    assert found == {"total_a": "total", "total_b": "sub_total"}
