"""Online training that holds only the pairs of feature and output that exist."""
