"""check_structure: whether a structure, of the package or your own, does what solvers, losses and estimators expect."""

from ._check import check_structure

__all__ = ["check_structure"]
