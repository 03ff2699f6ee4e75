"""How a CSV is read: its dialect, its column names, the words in its cells, and the formats of its dates and times."""
