"""Messages out of a database and into it: JSON lines, CSV and Parquet."""
