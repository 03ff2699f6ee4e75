"""One codec per family of kinds: each turns a column into integer codes and released codes back into values."""
