"""Dependency trees.

Best by Chu-Liu and Edmonds or by Eisner, marginals by the matrix-tree theorem or inside and outside sums.
"""
