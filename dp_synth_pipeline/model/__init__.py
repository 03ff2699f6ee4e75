"""Integers to a generative model: an autoregressive network, trained by DP-SGD, that draws new code rows.

This room sees an integer matrix and its cardinalities, never a table. It is the only importer of torch and opacus.
"""
