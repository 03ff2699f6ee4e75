"""Whether the output is fit: expectations, fidelity, the report for the owner of the data, the card for everyone else.

`expectations`, `checks`, `run` and `card` see released or synthetic values only. `fidelity` and `report` look at real
rows, so what they return is restricted.
"""
