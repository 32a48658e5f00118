"""Rankings: best by sorting, SparseMAP by isotonic regression."""
