"""Draws pages for people: release card, quality report, statement, governance page. It computes no figure."""
