"""Subsets with bounds on their size: best by selection, marginals by sums over sizes."""
