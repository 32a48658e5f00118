"""Foundations of all other packages of the library; it imports none of them."""
