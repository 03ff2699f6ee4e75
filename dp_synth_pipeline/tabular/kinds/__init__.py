"""Kinds of columns, one file a kind, and their registry.

To add one: subclass `Kind`, or the nearest kind there is, in a file of its own, and put it into the list below.
"""

from __future__ import annotations

from dp_synth_pipeline.tabular.kinds.accounts import Card, Iban, Ssn
from dp_synth_pipeline.tabular.kinds.base import KINDS, Bound, Codec, Column, Kind, kind_of, lookup, readable, register
from dp_synth_pipeline.tabular.kinds.boolean import Boolean
from dp_synth_pipeline.tabular.kinds.category import Category
from dp_synth_pipeline.tabular.kinds.constant import Constant
from dp_synth_pipeline.tabular.kinds.date import Date
from dp_synth_pipeline.tabular.kinds.datetime import Datetime
from dp_synth_pipeline.tabular.kinds.decimal import Decimal
from dp_synth_pipeline.tabular.kinds.duration import Duration
from dp_synth_pipeline.tabular.kinds.excluded import Excluded
from dp_synth_pipeline.tabular.kinds.identifier import Identifier
from dp_synth_pipeline.tabular.kinds.integer import Integer
from dp_synth_pipeline.tabular.kinds.online import Email, Ip, Url, Username, Uuid
from dp_synth_pipeline.tabular.kinds.ordinal import Ordinal
from dp_synth_pipeline.tabular.kinds.people import Address, Company, FirstName, LastName, Name, Phone, Street
from dp_synth_pipeline.tabular.kinds.text import Text

__all__ = ["KINDS", "Bound", "Codec", "Column", "Kind", "kind_of", "lookup", "readable", "register"]

for _kind in (
    *(Category, Ordinal, Integer, Decimal, Boolean, Date, Datetime, Duration),
    *(Text, Identifier, Constant, Excluded),
    *(FirstName, LastName, Name, Email, Username, Phone, Address, Street, Company),
    *(Uuid, Ip, Url, Ssn, Iban, Card),
):
    register(_kind)
