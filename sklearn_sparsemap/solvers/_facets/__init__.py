"""SparseMAP by the facets of a polytope, for structures whose inequalities are known.

Where scores are small, a solution mixes hundreds of structures but touches few facets.
"""
