"""One release of related tables: everything that belongs to one row of the root is protected together, under one epsilon."""
