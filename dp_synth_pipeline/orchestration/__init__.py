"""Holds Dagster, thinly: the asset graph tells the story, and each asset is *load, one domain call, result*.

Everything that imports dagster is here. Nothing here knows privacy, tables, networks or budgets.
"""
