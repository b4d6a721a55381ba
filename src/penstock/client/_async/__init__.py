"""The client as it is written; `_sync` beside it is generated from here."""
