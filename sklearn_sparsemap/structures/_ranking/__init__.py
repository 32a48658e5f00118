"""Rankings: MAP by sorting, SparseMAP by isotonic regression."""
