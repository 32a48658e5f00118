"""Matchings of rows and columns: best by an auction and shortest augmenting paths."""
