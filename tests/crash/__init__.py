"""The crash check: logs on a simulated disk whose power is cut, or whose process is killed, at every call.

events    the calls that change a directory, and what of them a power cut may leave behind
recorder  a `Disk` and an SQLite VFS that note every such call
oracle    what a log must show, worked out without the library's own state
workload  random histories of a log, with what was acknowledged after which call
check     the promises, looked for in what a cut has left
runner    every cut of a workload, cuts in recovery among them
canaries  protections taken away, one at a time: the check must notice each

python -m tests.crash --runs 20000 --seed 1
"""
