"""What masks cost: CPU time and bytes of one silo, by the number of silos.

    python -m benchmarks.masks

6,000 numbers, 20 rounds a set-up; a quarter of the silos is gone when the server adds up (of four
one). Medians over silos and rounds of CPU milliseconds. Prints the table of
docs/secure-aggregation.md.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairsilo.secagg import Agreement, ServerSession, SiloSession

NUMBERS, ROUNDS, ASKED = 6_000, 20, 5
"""Of a vector; that a set-up prepares; that are measured."""
T = TypeVar("T")
OPENSSH = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


class Clock:
    """CPU milliseconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(list)

    def __call__(self, name: str, call: Callable[..., T], *given: object) -> T:
        started = time.process_time()
        found = call(*given)
        self.spent[name].append(1e3 * (time.process_time() - started))
        return found

    def told(self, *names: str) -> str:
        """The medians, as a sum."""
        shown = (median(self.spent[name]) for name in names)
        return " + ".join(f"{one:.1f}" if one < 1 else f"{one:.0f}" for one in shown) + " ms"


def kilobytes(*sizes: float) -> str:
    """As a sum."""
    return " + ".join(f"{one / 1e3:.1f}" if one < 2e3 else f"{one / 1e3:.0f}" for one in sizes)


def row(count: int) -> list[str]:
    """A line of the table."""
    keys = {f"silo {one:02d}": ec.generate_private_key(ec.SECP384R1()) for one in range(count)}
    lines = {name: key.public_key().public_bytes(*OPENSSH).decode() for name, key in keys.items()}
    agreed, clock = Agreement("federation", "run", lines), Clock()
    silos, server = {name: SiloSession(agreed, name) for name in keys}, ServerSession(agreed)
    first, last = server.begin_setup(ROUNDS)
    for name, one in silos.items():
        server.add_bundle(name, clock("advertise", one.advertise, first, last, keys[name]))
    bundles = server.bundles()
    for name, one in silos.items():
        server.add_letters(name, clock("share", one.share, bundles))
    server.roster()
    letters = {name: server.letters_for(name) for name in silos}
    for name, one in silos.items():
        clock("receive", one.receive, letters[name])
    state = len(silos["silo 00"].to_bytes())
    vector = np.linspace(-1.0, 1.0, NUMBERS)
    for _ in range(ASKED):
        number, sent = server.open_round(NUMBERS), {}
        for name in list(silos)[: count - max(1, count // 4)]:
            sent[name] = clock("masked", silos[name].masked, number, vector)
            server.add_masked(name, number, sent[name])
        answers = server.close_round()
        for name in answers:
            signed = clock("confirm", silos[name].confirm, number, answers, keys[name])
            server.add_confirmation(name, number, signed)
        listed = server.confirmations()
        for name in answers:
            shown = clock("reveal", silos[name].reveal, number, answers, listed)
            server.add_reveal(name, number, shown)
        found = clock("total", server.total)
        assert np.allclose(found, vector * len(answers))
    set_up = sum(median(clock.spent[name]) for name in ("advertise", "share", "receive"))
    up = len(bundles["silo 00"]) + sum(
        len(one["silo 00"]) for name, one in letters.items() if name != "silo 00"
    )
    down = sum(map(len, bundles.values())) + sum(map(len, letters["silo 00"].values()))
    return [
        str(count),
        f"{set_up:.0f} ms",
        f"{kilobytes(up)} kB / {kilobytes(down)} kB",
        clock.told("masked", "confirm", "reveal"),
        f"{kilobytes(sent['silo 00'].nbytes, len(signed), len(shown))} kB",
        clock.told("total"),
        f"{kilobytes(state)} kB",
    ]


def main() -> None:
    """Print the table."""
    heads = ["N", "set-up CPU", "up / down in set-up", "a round: masked + confirm + reveal"]
    rows = [[*heads, "up a round", "server", "saved state"], ["---"] * 7]
    rows += [row(count) for count in (4, 10, 20, 50)]
    print("\n".join(f"| {' | '.join(one)} |" for one in rows))


if __name__ == "__main__":
    main()
