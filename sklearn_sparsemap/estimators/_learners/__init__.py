"""Learners take the steps of a fit: its initial weights, held-out samples, L-BFGS, epochs."""
