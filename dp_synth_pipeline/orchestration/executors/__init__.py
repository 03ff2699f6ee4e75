"""Decides where each step runs. Each run has one executor, which asks every step's own tag for its engine.

Placing, starting, watching and ending steps belong here. What a step does belongs elsewhere.
"""
