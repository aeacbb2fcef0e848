"""The program in a process of its own, and in this one, as in the command line tests."""

from tests.cli.conftest import fairsilo, quick

__all__ = ["fairsilo", "quick"]
