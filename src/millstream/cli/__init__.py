"""The commands: one file for each, and `app` that puts them together."""
