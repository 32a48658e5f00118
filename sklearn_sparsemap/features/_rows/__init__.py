"""Rows of features from dicts, data frames, transformers of flat data, and unions of these."""
