"""L-BFGS with compiled and threaded loops over vectors."""
