"""`python -m theodolite` is the command `theodolite`."""

from theodolite.cli import main

if __name__ == "__main__":
    main()
