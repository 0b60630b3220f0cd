"""An evaluation for people: a table by split and level, and what there is to say below it."""

from typing import Any

from agent_envs.cli.common import table
from agent_envs.cli.plan import Plan


def report(plan: Plan, told: dict[str, Any]) -> str:
    """The figures of `evaluate` as text."""
    lines = [
        f"{plan.env_id}, {plan.policy} on {', '.join(plan.splits)}: {told['episodes']} episodes"
        f" in {told['seconds']:.1f} s",
        "",
        _table(told),
        "",
        f"  a mean of {number(told['turns'])} turns and {number(told['calls'])} calls an episode",
        *_tokens(told),
        f"  ended by  {counted(told['end_reasons'])}",
        f"  faults    {counted(told['faults'])}",
        f"  errors    {counted(told['errors'])}",
    ]
    if told["invalid"]:
        share = told["invalid"] / told["episodes"]
        lines.append(
            f"  invalid   {told['invalid']} ({share:.1%}): {counted(told['invalid_because'])}"
        )
    return "\n".join([*lines, "", "  95% intervals: Wilson's, over tasks"])


def _table(told: dict[str, Any]) -> str:
    ks = [k for k in told["pass_at"] if k != "1"]
    head = ["", "episodes", "success", "95%", "reward", *(f"pass@{k}" for k in ks)]
    return table(head, [_cells(name, part, ks) for name, part in _parts(told)], "  ")


def _parts(told: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What gets a line of its own: cheats, or levels, of each split where there are several."""
    splits = told["by_split"]
    if "by_cheat" in told:
        parts = list(told["by_cheat"].items())
    elif len(splits) > 1:
        parts = [
            line
            for split, part in splits.items()
            for line in [
                *((f"{split}, level {n}", level) for n, level in part["by_level"].items()),
                (f"{split}, all", part),
            ]
        ]
    else:
        parts = [(f"level {n}", part) for n, part in told["by_level"].items()]
    return [*parts, ("all", told)]


def _cells(name: str, part: dict[str, Any], ks: list[str]) -> list[str]:
    passes = (part["pass_at"].get(k, {}).get("rate") for k in ks)
    return [
        name,
        f"{part['episodes']}",
        percent(part["success_rate"]),
        span(part["interval"]),
        number(part["mean_reward"], 3),
        *map(percent, passes),
    ]


def _tokens(told: dict[str, Any]) -> list[str]:
    usage = told["usage"]
    if usage is None:
        return []
    cost = "" if told["cost"] is None else f", cost {told['cost']:.4g}"
    untold = f", {usage['untold']} answers without counts" if usage["untold"] else ""
    return [
        f"  {usage['requests']:,} requests and {usage['retries']:,} retries;"
        f" {usage['prompt_tokens']:,} tokens read, {usage['completion_tokens']:,} written"
        f"{cost}{untold}"
    ]


def percent(rate: float | None) -> str:
    """A rate for people; a dash where there is none."""
    return "-" if rate is None else f"{rate:.1%}"


def span(interval: list[float] | None) -> str:
    """An interval of rates for people."""
    return "-" if interval is None else f"{interval[0]:.1%} to {interval[1]:.1%}"


def number(value: float | None, digits: int = 1) -> str:
    """A mean for people; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def counted(counts: dict[str, int]) -> str:
    """Counts for people: `wrong 3, timeout 1`."""
    return ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "none"
