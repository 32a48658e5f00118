"""Selection among groups of features, and reports of it."""
