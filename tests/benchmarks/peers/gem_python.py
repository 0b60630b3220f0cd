"""GEM's Python tool on one small cell, as its environments call it."""

from gem.tools.python_code_tool import PythonCodeTool

TOOL = PythonCodeTool(timeout=5)
ACTION = "<python>print(6*7)</python>"


def calls(count: int) -> int:
    """One call of the tool; a unit is one."""
    for _ in range(count):
        TOOL.execute_action(ACTION)
    return count


if "42" not in TOOL.execute_action(ACTION)[2]:
    raise RuntimeError("the tool does not answer as it did: adapt this file")

MEASURES = {"calls": calls}
