"""Sequences: MAP by Viterbi, marginals by forward-backward."""
