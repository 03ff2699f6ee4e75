"""Where each step runs: one executor per run, which asks every step's own tag for its engine.

Belongs here: placing, starting, watching and ending steps. Does not belong here: what a step does.
"""
