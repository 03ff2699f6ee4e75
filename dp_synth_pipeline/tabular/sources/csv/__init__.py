"""How a CSV is read: its text, line by line; what a person declared of its cells; which types fit them; and their values."""
