"""What figures were measured on."""

import os
import platform
from typing import Any

from agent_envs import __version__


def machine() -> dict[str, Any]:
    """The interpreter, the platform and the number of CPUs, as JSON."""
    return {
        "agent_envs": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }
