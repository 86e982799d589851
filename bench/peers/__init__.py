"""A governed call beside what others charge for an ungoverned one: `make peers` installs them, `python -m bench.peers` prints the table."""
