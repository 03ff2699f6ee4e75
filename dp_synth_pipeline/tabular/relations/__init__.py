"""Related tables: which rows belong to whom, and the columns that carry the shape of a history."""
