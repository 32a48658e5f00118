"""LP-SparseMAP of graphs of variables of several values with tables of scores for pairs."""
