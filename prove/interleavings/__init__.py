"""Two or three real sessions, and every order in which their statements can follow."""
