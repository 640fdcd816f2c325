"""Processes that write and read one log, and are killed: `python -m tests.kills --kills 50 --seed 1`.

- `writer`, `reader` and `keeper` are the programs, and `worker` what they have in common;
- each says in a `report` of its own what was acknowledged, delivered and committed;
- `driver` starts them, kills them at random moments, and starts them again;
- `history` compares the reports with what the log holds in the end.
"""
