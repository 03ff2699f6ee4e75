"""The autoregressive generator: a network over columns, where it starts, how its layers are clipped, and how it draws."""
