"""The linear classifiers of structures."""
