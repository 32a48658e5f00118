"""Solvers of LP-SparseMAP for factor graphs, as kernels. This room has no public names.

Conventions: kernels share these parameters and document only the others.

graph : GraphArrays
structures : Structures, or None
    The structure factors of one sample, with the state of their solvers. None if the graph has none.
oracles, solvers
    MAP oracles and `StructureSolvers` of the graph's structures.
scores : array of shape (n_variables,)
    FORBIDDEN for variables that must be off.
additional : array of shape (n_additional,)
    Additional scores of the factors, factor by factor.
u : array of shape (n_variables,)
    Marginals of the variables.
lam : array of shape (n_links,)
    Dual variables of the links.
copies : array of shape (n_links,)
    The factors' copies of their variables: the solution of each factor for itself.
joint : array of shape (n_additional,)
    Marginals of the additional scores.
f : int
    Number of a factor.
index : int
    Number of a structure factor among the structure factors.
z, p : arrays of shape (n_literals,)
    Scores and solution of the literals of one factor.
tol : float
    Largest violation of a constraint that counts as solved.
limits : int array of shape (2,)
    Maximum number of iterations, and of oracle calls by one solve of a structure. Another thread stops a solver by
    setting them to 0.
snap : float
    A marginal lies on a bound if it is this close to it.
i : int
    Number of a sample.
start, stop : int
    A range of samples.
"""
