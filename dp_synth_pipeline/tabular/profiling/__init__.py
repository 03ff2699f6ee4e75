"""The private pass: what it measures and what that costs, its histograms, and the profile that it releases."""
