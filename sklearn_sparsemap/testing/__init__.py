"""check_structure: tests that a structure meets the requirements of solvers, losses and estimators."""

from ._check import check_structure

__all__ = ["check_structure"]
