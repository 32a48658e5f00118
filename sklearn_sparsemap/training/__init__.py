"""How weights are learned: online and batch optimisers over flat data. They know losses, but no estimator."""
