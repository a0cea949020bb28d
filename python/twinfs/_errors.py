"""Errors, in the words of the command line."""


class TwinfsError(RuntimeError):
    """A command failed. `status` is the exit status that the program would have."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


class UsageError(TwinfsError, ValueError):
    """An argument is wrong: nothing was run."""


class TwinfsWarning(UserWarning):
    """What a command says on standard error although it does what was asked: what it assumed, left out or lost."""
