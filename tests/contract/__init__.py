"""The contract of logs: one suite that every store passes.

A store joins with one entry in `stores.py`. What it cannot do (`Log.can`) a test names with the marker
`needs`; for a store without it the test asserts that `Unsupported` is raised and says what it can.
"""
