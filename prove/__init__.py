"""The proof programme: faults survived, with counted histories.  `python -m prove --list`."""
