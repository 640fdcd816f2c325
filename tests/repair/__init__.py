"""Repair: every kind of damage, by name and by chance, and what is there again afterwards."""
