"""Numerical methods under structures and graphs: linear algebra, supports, faces, the active set, Newton on cuts."""
