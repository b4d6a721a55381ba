"""The queues that are compared, one file each."""
