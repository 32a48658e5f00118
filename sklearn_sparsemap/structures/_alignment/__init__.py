"""Monotone alignments: best and marginals by dynamic programmes over the cells of a grid."""
