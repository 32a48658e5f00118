"""Inference in factor graphs, between the public functions and the solvers."""
