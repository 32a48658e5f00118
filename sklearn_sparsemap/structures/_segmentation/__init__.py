"""Sequences cut into labelled spans: best and marginals by dynamic programmes over the ends of spans."""
