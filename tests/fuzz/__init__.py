"""The fuzz check: what a log reads from disk is damaged, or forged with checksums that fit.

template  a small log with something of everything, and what it may show after its newest commits are gone
damage    what happens to files by accident: flipped bits, cuts, zeros, other files' bytes
forge     content that is wrong under checksums that are right
look      everything that can be asked of a log; only errors of ours may come of it
"""
