"""`python -m agent_envs` is `agent-envs`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("agent_envs.cli", run_name="__main__")
