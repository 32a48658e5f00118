"""Sequences: best by Viterbi, marginals by forward and backward sums."""
