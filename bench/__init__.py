"""Benchmarks: `python -m bench` lists them; each figure compares two things measured in one run."""
