"""One link of the chain a file; each builds its asset for one table from `TableSettings`."""
