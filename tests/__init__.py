"""The tests: each one's name is a sentence, its body a small whole program."""
