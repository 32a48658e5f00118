"""Dynamic programs as hypergraphs, in batched operations of PyTorch."""
