"""Who sends a request, and whether the sender may: signatures, access keys, policies."""
