"""SparseMAP over chains with a budget in batched operations of PyTorch: a dynamic program over states and counts."""

from ..._numerics.tensors import active_set
from .._chain.tensors import chain_program
from .._hypergraph.tensors import derivations_of


def solve(structure, batch):
    """Solve a padded batch of a `SequenceBudget`; see `Structure.tensor_solver`."""
    most = tuple(min(structure.budget_of(n), n) for n in range(1, batch.scores.shape[1] + 1))
    counts = tuple((n if structure.exactly else 0, n) for n in most)
    return active_set(derivations_of(chain_program, batch, structure.state, counts).best, batch)
