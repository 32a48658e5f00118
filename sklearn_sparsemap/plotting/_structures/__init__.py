"""Plots of the structures that SparseMAP selects, one class for each kind of structure."""
