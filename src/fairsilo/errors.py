"""The exception for users' mistakes: what is wrong, where, and what to do about it."""


class FairSiloError(Exception):
    """A mistake in the input. The message is one sentence that says what to do."""
