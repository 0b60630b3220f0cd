"""Arithmetic with a calculator that can be made unreliable: the smallest environment."""

from agent_envs.registry import register

register("agent/Calculator-v0", "agent_envs.envs.calculator.env:Calculator")
register(
    "agent/CalculatorChars-v0",
    "agent_envs.envs.calculator.env:CalculatorChars",
    protocol="chars",
    max_turns=4,
)
