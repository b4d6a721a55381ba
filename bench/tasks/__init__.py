"""Tasks on both databases, beside a naive store."""
