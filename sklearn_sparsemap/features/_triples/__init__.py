"""Features of triples of words, for parsers of second order."""
