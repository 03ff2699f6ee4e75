"""Noisy marginals: their plan, their measurement, the fits to them, and draws that are raked to them.

All but the measurement is post-processing, so free. This package knows neither a network nor DP-SGD.
"""
