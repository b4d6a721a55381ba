"""Two real sessions, in every order in which their steps can follow one another."""
