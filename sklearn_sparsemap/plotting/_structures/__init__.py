"""Pictures of what SparseMAP selects: one for each structure."""
