"""The queue as coroutines; `_sync` is made from it by tools/generate_sync.py."""
