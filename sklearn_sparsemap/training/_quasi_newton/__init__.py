"""L-BFGS, its vectors in compiled and threaded loops."""
