"""Penstock and its peers, measured in one run on a private server: `python -m bench`."""
