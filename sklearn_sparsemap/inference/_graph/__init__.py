"""Inference in factor graphs: checks of input, choice of solvers, exact search."""
