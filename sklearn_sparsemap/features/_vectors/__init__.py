"""Features of words from tables of vectors: the vectors themselves, and clusters of them."""
