"""The structures that can be predicted, each with its MAP oracle.

`Structure` documents the parameters ``scores, additional, dims, work, slots, additional_slots`` of all oracles,
`_numerics/solver.py` those of all solvers, and `_numerics/facets.py` those of all Jacobian products.
"""

from ._alignment.structure import Alignment
from ._base import Structure
from ._chain.structure import LinearChain
from ._custom import CustomStructure
from ._head_automaton.structure import HeadAutomaton
from ._hyperpath.structure import Hyperpath
from ._linear_program import LinearProgram
from ._matching.structure import Matching
from ._path.structure import Path
from ._ranking.structure import Ranking
from ._segmentation.structure import Segmentation
from ._sequence_budget.structure import SequenceBudget
from ._simplex.structure import Simplex
from ._subset.structure import Subset
from ._tree.structure import DependencyTree

__all__ = [
    "Alignment",
    "CustomStructure",
    "DependencyTree",
    "HeadAutomaton",
    "Hyperpath",
    "LinearChain",
    "LinearProgram",
    "Matching",
    "Path",
    "Ranking",
    "Segmentation",
    "SequenceBudget",
    "Simplex",
    "Structure",
    "Subset",
]
