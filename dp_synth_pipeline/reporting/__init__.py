"""Pages for people: the release card, the quality report, the statement, the governance page. No figure is computed here."""
