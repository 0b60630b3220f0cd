"""The conformance kit: every promise of an environment, checked for anybody's.

from agent_envs.testing import check_tool_env

def test_my_env() -> None:
    check_tool_env("mine/Bank-v0")
"""

try:
    import hypothesis  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "the conformance kit needs hypothesis: pip install hypothesis", name="hypothesis"
    ) from None

from agent_envs.testing.check import check_tool_env

__all__ = ["check_tool_env"]
