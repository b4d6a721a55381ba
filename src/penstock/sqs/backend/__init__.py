"""Calls into the engine: single, in batches, and from long polls."""
