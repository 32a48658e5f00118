"""Dynamic programmes as hypergraphs, in batched operations of PyTorch."""
