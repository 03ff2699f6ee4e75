"""Where synthetic rows go: files, DuckDB tables and warehouses, replaced atomically."""
