"""Dagster, thinly: the asset graph is the story, and each asset is *load, one domain call, result*.

Everything that imports dagster is here; everything that knows privacy, tables, networks or budgets is not.
"""
