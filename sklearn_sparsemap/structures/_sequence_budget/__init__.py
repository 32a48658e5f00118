"""Sequences with a limited number of steps in one state."""
