"""Environment ids: Gymnasium's own registry, and the folders that fill it."""

import importlib
import pkgutil
import warnings
from typing import Any

import gymnasium

_ids: list[str] = []


def register(id: str, entry_point: str, **kwargs: Any) -> None:
    """Register an id whose `gymnasium.make` returns the ToolEnv itself, without wrappers.

    `entry_point` is "module:Class", imported when an env is made; `kwargs` are its arguments.
    """
    gymnasium.register(
        id, entry_point, order_enforce=False, disable_env_checker=True, kwargs=kwargs
    )
    if id not in _ids:
        _ids.append(id)


def ids() -> list[str]:
    """All ids registered with `register`, sorted."""
    return sorted(_ids)


def discover(package: str) -> None:
    """Import every folder of a package, so that its `__init__` registers; one that fails warns."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        try:
            importlib.import_module(f"{package}.{module.name}")
        except Exception as error:
            warnings.warn(f"{package}.{module.name} is not available: {error!r}", stacklevel=2)
