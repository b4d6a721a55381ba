"""Two real sessions, and every order in which their statements can follow each other."""
