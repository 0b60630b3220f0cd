"""Says what to install where a package is missing; imported before what needs it."""

import importlib

from agent_envs.errors import BackendUnavailable


def need(package: str) -> None:
    """Raise BackendUnavailable where a package is not installed."""
    try:
        importlib.import_module(package)
    except ModuleNotFoundError:
        raise BackendUnavailable(
            f"agent/SQL-v0 needs {package}: pip install 'agent-envs[sql]'"
        ) from None


need("sqlalchemy")
