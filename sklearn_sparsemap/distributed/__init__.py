"""Training on many machines: workers of a cluster, or threads, learn from shards of the data."""

from ._mixing import ParameterMixing

__all__ = ["ParameterMixing"]
