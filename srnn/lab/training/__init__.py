"""A run: its settings, its model, the loop that trains it, and its checkpoint."""
