"""One of several choices: best by the maximum, SparseMAP by sparsemax."""
