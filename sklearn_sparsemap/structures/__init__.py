"""What is predicted: the structures, each with its MAP oracle."""

from ._base import Structure
from ._chain import LinearChain
from ._simplex import Simplex

__all__ = ["LinearChain", "Simplex", "Structure"]
