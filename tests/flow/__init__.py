"""Flows: the laws that operators keep, and what each of them means."""
