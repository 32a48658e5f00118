"""The state of a training as arrays: read from an estimator, written to one, averaged over several."""
