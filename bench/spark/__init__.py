"""The Spark door beside Spark's own JDBC source, in one run and one warm session."""
