"""What is predicted: the structures, each with its MAP oracle."""

from ._base import Structure
from ._chain import LinearChain
from ._custom import CustomStructure
from ._matching import Matching
from ._simplex import Simplex
from ._subset import Subset
from ._tree import DependencyTree

__all__ = ["CustomStructure", "DependencyTree", "LinearChain", "Matching", "Simplex", "Structure", "Subset"]
