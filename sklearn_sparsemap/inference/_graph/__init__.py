"""What a user asks of factor graphs, between the public functions and the solvers."""
