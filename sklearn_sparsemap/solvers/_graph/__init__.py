"""Solvers over factor graphs: logic, pairs and structures that share variables."""
