"""`check_tool_env`: the list of all checks, in the order in which failures are easiest to read."""

from agent_envs.testing import basics, hostile, laws, rewards
from agent_envs.testing.play import Maker, Subject

CHECKS = (
    basics.passes_gymnasiums_own_check,
    basics.spec_survives_json_and_pickle,
    basics.info_has_its_form,
    basics.same_seed_same_bytes,
    basics.same_bytes_in_another_process,
    basics.seed_moves_only_noise,
    basics.leaves_global_random_state_alone,
    basics.interleaved_envs_do_not_disturb,
    basics.limits_hold,
    basics.vectors_agree,
    laws.start_law,
    laws.random_walks_keep_the_laws,
    laws.deep_lineage,
    laws.handles_travel,
    laws.forks_outlive_their_parent,
    laws.nothing_leaks,
    rewards.tasks_are_sound,
    rewards.oracle_passes_every_task,
    rewards.nobody_else_passes,
    hostile.survives_hostile_texts,
    hostile.survives_hostile_arguments,
)


def check_tool_env(
    env: str | Maker, *, examples: int = 30, depth: int = 100, tasks: int | None = None
) -> None:
    """Check everything that DESIGN promises of an environment; AssertionError says what to fix.

    `env` is an id, or a factory (a ToolEnv class will do) that takes the arguments of `make`.
    `examples` random walks test the laws of snapshots, `depth` snapshots are taken in one line,
    and of each split the first `tasks` tasks are played (all by default). Needs `hypothesis`.

    What an env calls volatile it must not show in the moves that are drawn from its schemas.
    """
    subject = Subject.of(env, examples, depth, tasks)
    for check in CHECKS:
        try:
            check(subject)
        except AssertionError as error:
            name = check.__name__.replace("_", " ")
            raise AssertionError(f"{subject.name}: {name}: {error}") from error
