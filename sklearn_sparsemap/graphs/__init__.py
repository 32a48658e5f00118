"""What kernels see of a factor graph.

Its arrays, and the closed forms of its factors. Knows no structure and no solver.
"""
