"""`python -m millstream.cli`: the same as `millstream`."""

from millstream.cli.app import main

if __name__ == "__main__":
    main()
