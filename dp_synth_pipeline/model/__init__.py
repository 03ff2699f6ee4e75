"""Integers to a generative model: whatever it is, it is fitted, saved, loaded and drawn from in one way (`base`).

- `dpsgd`: what DP-SGD is; it knows no network.
- `marginals`: noisy counts of columns that occur together, the fits to them, and draws raked to them.
- `autoregressive`: a network over columns that starts from those fits, is trained by DP-SGD, and draws new rows.
- `language`: a pretrained language model that the user brings, with adapters that DP-SGD trains; it writes texts.
- `artifact`: a released model on disk; it knows all models by name.

This room sees an integer matrix and its cardinalities, or prompts and texts, never a table. It is the only importer of torch
and opacus; plans and specs (`*/plan.py`, `*/spec.py`) import neither, so that a cost can be computed anywhere.
"""
