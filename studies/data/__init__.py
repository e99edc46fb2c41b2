"""Data sets that several studies read; generators of a single study are next to it."""
