"""Subsets with bounds on their size: MAP by selection, marginals by sums over sizes."""
