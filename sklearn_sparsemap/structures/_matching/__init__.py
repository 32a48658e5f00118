"""Matchings of rows and columns: MAP by an auction and shortest augmenting paths."""
