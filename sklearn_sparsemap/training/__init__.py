"""Online and batch optimisers over flat data. They use losses, but no estimators."""
