"""The exception for users' mistakes: what is wrong, where, and what to do about it."""


class FairSiloError(Exception):
    """A mistake in the input. The message is one sentence that says what to do."""


class FairSiloWarning(UserWarning):
    """Something that was done with the user's data and might not be meant."""
