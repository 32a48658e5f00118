"""Online and batch optimisers of losses over flat data."""
