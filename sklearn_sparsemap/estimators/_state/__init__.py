"""The state of a training as arrays: read from an estimator, written into one, averaged over several."""
