"""What a release costs: budgets, events, accounting, the admission filter, calibration and noise.

Pure functions of public numbers, except `mechanisms`, the only place here that touches counts of rows.
No torch, no dagster, no I/O.
"""
