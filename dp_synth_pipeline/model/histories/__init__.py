"""Histories: the rows of one person, drawn one after another, each upon what came before. Integers only."""
