"""Rows from what people have: dicts of features, data frames, transformers of flat data, and several of these."""
