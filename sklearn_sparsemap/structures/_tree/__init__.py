"""Dependency trees.

MAP by Chu-Liu/Edmonds or Eisner, marginals by the matrix-tree theorem or inside-outside.
"""
