"""Templates over the tokens of a sentence."""
