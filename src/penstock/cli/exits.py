"""What the exit code of a command says."""

from __future__ import annotations

MEANINGS = {
    0: "Done. `watch`, `tail` and `maintain --every` end with it on Ctrl-C: that is their end.",
    1: "It could not be done, or what was looked for is not so: the database refused or is away, "
    "`doctor` found something wrong, a token holds nothing, a message is not known, or the reader "
    "of a pipe went away. Standard error says which, and what to do.",
    2: "The command was not understood, or a value or a file can't be used. Nothing was changed.",
    128: "With the number of the signal added: a worker that was told twice to stop, and so left "
    "work unfinished (Ctrl-C: 130).",
    130: "Ended by Ctrl-C or SIGTERM before it was done; what can be gone on with says how.",
}
