"""DP-SGD for any network that says its losses: Poisson samples, exact clipping, noise, charged queries, audits.

This package knows no network. A network derives from `trainable.Trainable`, and registers how its layers are clipped beside
their definition (see `clipping`).
"""
