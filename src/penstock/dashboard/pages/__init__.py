"""One file a page: it asks the database or the watch, and fills its template."""
