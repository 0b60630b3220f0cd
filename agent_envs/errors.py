"""What this package raises.

    RuntimeError
    |-- BackendUnavailable     something of ours is down; says the command that fixes it
    `-- SnapshotUnsupported    a state that cannot be captured or brought back, by name
    Exception
    `-- ToolError              raised inside a tool: its message is what the model reads

A model's own mistakes are never exceptions: they are observations (`ToolResult.error`).
"""


class BackendUnavailable(RuntimeError):
    """Something that the environment needs is missing or down. It is never the model's doing.

    Raised at `make` or `reset` it reaches the caller; raised in mid-episode it truncates the
    episode with `info["infrastructure_error"]`, which no trainer may learn from.
    """


class SnapshotUnsupported(RuntimeError):
    """A state that cannot be captured, or brought back. The message names what is in the way."""


class ToolError(Exception):
    """A tool's way of saying that a call did not work out; the model reads the message."""
