"""Training on many machines: shards of the data on the workers of a cluster, or on threads."""
