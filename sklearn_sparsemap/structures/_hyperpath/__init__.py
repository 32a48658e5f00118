"""Derivations in directed acyclic hypergraphs: MAP, marginals and samples by dynamic programming over the nodes."""
