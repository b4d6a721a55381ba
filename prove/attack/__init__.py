"""Attacks: hostile bytes, forged signatures, foreign tenants, bombs; machinery of several parts."""
