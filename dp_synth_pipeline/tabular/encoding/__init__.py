"""Tables to integers and back, from released facts alone; and what becomes of nulls on the way."""
