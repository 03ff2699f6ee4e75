"""The mechanisms of a release: everything in this house that looks at real rows and lets something of them out."""
