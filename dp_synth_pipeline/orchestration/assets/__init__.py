"""Each file builds the asset of one stage of a release, for one table, from its `TableSettings`."""
