"""Engines: the stage runtime, and Spark."""
