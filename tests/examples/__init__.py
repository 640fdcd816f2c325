"""The programs in `examples/`: each compared with a plain computation, in whatever order things happen."""
