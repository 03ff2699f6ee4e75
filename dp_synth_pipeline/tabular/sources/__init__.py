"""Where rows come from: files, DuckDB tables and warehouses, read once into an immutable snapshot."""
