"""Related tables: which rows belong to whom, the columns that carry a history's shape, and publishing all at once."""
