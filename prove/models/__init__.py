"""Small models of the engine's protocols, explored whole: every order of every step."""
