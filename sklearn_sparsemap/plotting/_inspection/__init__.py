"""Plots of learned models and their errors."""
