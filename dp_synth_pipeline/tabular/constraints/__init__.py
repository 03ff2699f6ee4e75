"""Rules across columns: read, checked and enforced, on synthetic rows alone.

A rule is declared by a person, so it is public. What enforcement does beyond the rule's own words it learns from rows that
a released generator drew, so it is post-processing and free; real rows are never asked.

    start <= end              also <, >=, >, ==; and with a literal: age >= 18, seen < 2030-01-01, wait <= '2 days'
    total = price + fee - off sums and differences of columns
    total = price * count     products and quotients of columns and numbers: gross = 1.2 * net, rate = paid / hours; also of
                              1 with a column added or taken off: paid = price * (1 - discount)
    country -> currency       one currency for each country; zip, street -> city

A row with a null in a rule's columns, or a 0 that divides, is not judged by it. Names of other than letters, digits and _
are written in double quotes.
"""

from __future__ import annotations

from dp_synth_pipeline.tabular.constraints.enforce import enforced
from dp_synth_pipeline.tabular.constraints.filling import filled
from dp_synth_pipeline.tabular.constraints.fit import check, check_names, computed, digits, limits
from dp_synth_pipeline.tabular.constraints.hold import holds, usual
from dp_synth_pipeline.tabular.constraints.parse import (
    Comparison,
    Dependency,
    Formula,
    Literal,
    Product,
    Rule,
    Sum,
    parse,
    qualified,
)

__all__ = [
    "Comparison",
    "Dependency",
    "Formula",
    "Literal",
    "Product",
    "Rule",
    "Sum",
    "check",
    "check_names",
    "computed",
    "digits",
    "enforced",
    "filled",
    "holds",
    "limits",
    "parse",
    "qualified",
    "usual",
]
