"""Pictures of the choice among groups of features."""
