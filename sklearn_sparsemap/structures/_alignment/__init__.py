"""Monotone alignments: MAP and marginals by dynamic programming over the cells of a grid."""
