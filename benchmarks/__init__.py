"""Programs that measure what the project does; see `README.md` here."""
