"""Solvers over one polytope that is known by its MAP oracle alone."""
