"""Settings that have a name: what each changes of `Args`."""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    # As published: GRPO as in the paper, 8 sums x 8 episodes an update.
    "workshop": {"credit": "group_normalised"},
    # Ours, in as many updates: groups that teach nothing are replaced, every turn is credited with
    # what it changed, and the steps are larger.
    "workshop-best": {"credit": "turn_values", "draws": 6, "learning_rate": 1e-3},
}
