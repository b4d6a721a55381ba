"""Connections as they are written; `_sync` beside it is generated from here."""
