"""Selection of groups of features: paths, stability, cross-validation."""
