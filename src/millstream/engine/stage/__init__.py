"""The stage runtime: what runs of a flow in each task, in plain Python and Arrow. No engine is known here."""
