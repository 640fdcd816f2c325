"""Consumers, alone and in groups, on every store."""
