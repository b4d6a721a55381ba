"""Thin layers for frameworks.  Each module needs its framework, none needs another."""
