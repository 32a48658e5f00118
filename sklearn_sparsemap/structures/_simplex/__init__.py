"""One of several choices: MAP by the maximum, SparseMAP by sparsemax."""
