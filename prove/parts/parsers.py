"""Every parser that meets foreign bytes, fed with a million inputs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from prove.attack import fuzzing, guided, sabotage, served, sql_inputs, targets
from prove.model import Outcome, Part

if TYPE_CHECKING:
    from prove.attack.targets import Target
    from prove.model import Take

# Hypothesis thinks longer about an input than a parser takes to refuse it.
_IMAGINED_SHARE = 0.02
_GUIDED_SHARE = 0.3


def play(take: Take) -> Outcome:
    found = targets.every()
    # A little more than asked for: hypothesis stops early where it knows all inputs.
    each = take.size(full=1_030_000, quick=6_000, twin=100_000) // len(found)
    tally = fuzzing.Tally()
    findings = [] if take.sabotaged or take.quick else _guided(take, each * len(found), tally)
    with sabotage.unguarded_json() if take.sabotaged else nullcontext(), fuzzing.watching():
        for target in found.values():
            _attack(take, target, each - tally.inputs["guided"] // len(found), tally)
        if not take.sabotaged:
            with served.database() as dsn:
                sql_inputs.attack(dsn, take.size(full=20_000, quick=300), take.luck, tally)
    tally.write(take.folder / "findings.txt")
    for finding in tally.findings.values():
        take.say(f"{finding.target}: {finding.error} at {finding.place}")
    for line in findings:
        take.say(line)
    errors = tally.found + len(findings)
    return Outcome(
        {
            "parsers": len(found),
            "inputs": tally.inputs.total(),
            **{f"{kind} inputs": count for kind, count in sorted(tally.inputs.items())},
            "refused as documented": tally.refused,
            "undocumented errors": errors,
        },
        {"undocumented errors": errors} if errors else {},
    )


def _guided(take: Take, count: int, tally: fuzzing.Tally) -> list[str]:
    """A share of all inputs, where atheris is there to steer them."""
    if not guided.available():
        take.say("atheris is not installed: no inputs are steered")
        return []
    lines: list[str] = []
    for module in guided.MODULES:
        runs = round(count * _GUIDED_SHARE) // len(guided.MODULES)
        ran, found = guided.run(module, runs, take.seed, take.folder / module)
        tally.inputs["guided"] += ran
        lines += found
    take.say(f"{tally.inputs['guided']} inputs were steered")
    return lines


def _attack(take: Take, target: Target, count: int, tally: fuzzing.Tally) -> None:
    luck = take.luck
    luck.seed(f"{take.seed} {target.name}")
    imagined = round(count * _IMAGINED_SHARE)
    fuzzing.imagine(target, imagined, take.seed, tally)
    fuzzing.mutate(target, count - imagined, luck, tally)
    take.say(f"{target.name}: {tally.inputs.total()} inputs so far")


PART = Part(
    name="parsers",
    promise="Whatever bytes arrive, a parser gives a value or the error that its documentation "
    "names; it neither fails otherwise nor hangs.",
    how="25 parsers (both SQS protocols, signatures, addresses, policies, key files, payloads and "
    "their types, CloudEvents, tasks, settings, DSNs, options, import files) are fed in process: "
    "samples bent by byte and by structure, inputs of hypothesis, and where atheris has a wheel "
    "for this Python, inputs that it steers into new code. SQL is called with bent JSON too.",
    sabotage="what the JSON decoder raises is not turned into a refusal",
    breaks=frozenset({"undocumented errors"}),
    play=play,
    enough={"inputs": 1_000_000},
)
