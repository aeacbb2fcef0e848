"""The program in a process of its own, as in the command line tests."""

from tests.cli.conftest import fairsilo

__all__ = ["fairsilo"]
