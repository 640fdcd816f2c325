"""Programs that show what millstream does: `python -m examples.demo` is the first to see."""
