"""The embedded store: plain Arrow files and one SQLite manifest."""
