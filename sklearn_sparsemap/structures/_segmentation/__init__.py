"""Sequences cut into labelled spans: MAP and marginals by dynamic programming over the ends of spans."""
