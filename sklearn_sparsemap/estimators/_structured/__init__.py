"""Linear classifiers of structures."""
