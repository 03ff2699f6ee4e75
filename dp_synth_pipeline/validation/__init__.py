"""Whether the output is fit: expectations, fidelity, the report for the owner of the data, the card for everyone else.

`expectations`, `checks`, `run` and `card` see released or synthetic values only. `figures`, all that it is made of
(`fidelity`, `accuracy`, `relations`, `learners`, `patterns`, `groups`) and `report` look at real rows, so what they return
is restricted. `charged` looks at them too, through a mechanism that a release has paid for.
"""
