"""What chooses among groups of features, and reports the choice."""
