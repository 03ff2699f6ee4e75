"""Text columns: what is measured of them with noise, and what writes new texts from that, upon the rest of a row."""
