"""Batch group lasso: the penalty, the problem on a working set of columns, its solver, and certificates."""
