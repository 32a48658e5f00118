"""Templates over the arcs of a sentence."""
