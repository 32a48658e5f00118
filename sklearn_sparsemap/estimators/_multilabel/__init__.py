"""The classifier of label sets."""
