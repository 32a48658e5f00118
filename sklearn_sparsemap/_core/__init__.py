"""Foundations of all rooms, which import nothing of them."""
