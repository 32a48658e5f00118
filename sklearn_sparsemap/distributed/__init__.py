"""Training on many machines: shards of the data on the workers of a cluster, or on threads."""

from ._mixing import ParameterMixing

__all__ = ["ParameterMixing"]
