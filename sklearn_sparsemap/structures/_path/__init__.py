"""Paths through directed acyclic graphs: MAP, marginals and samples by dynamic programming over the nodes."""
