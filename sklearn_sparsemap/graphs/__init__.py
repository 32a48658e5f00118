"""The machine of factor graphs: their arrays, the closed forms of factors, solvers, certificates and derivatives."""
