"""One stage of a release a file; each builds its asset for one table from `TableSettings`."""
