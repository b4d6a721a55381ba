"""The processes of the programme: `python -m prove.actors publish|work|consume|rival|linger …`.

Each writes down what it does before and after it does it.  `--sabotage` makes an actor break one
promise on purpose: the checker must see it.
"""
