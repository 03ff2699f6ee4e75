"""Holds the mechanisms of a release: everything that looks at real rows and lets something of them out."""
