"""`check_tool_env`: the list of all checks, in the order in which failures are easiest to read."""

from collections.abc import Callable

from agent_envs.testing import basics, faults, hostile, info, laws, leaks, rewards
from agent_envs.testing.play import Maker, Subject

CHECKS: tuple[Callable[[Subject], None], ...] = (
    basics.takes_the_arguments_of_make,
    info.info_has_its_form,
    basics.passes_gymnasiums_own_check,
    basics.spec_survives_json_and_pickle,
    basics.same_seed_same_bytes,
    basics.leaves_global_random_state_alone,
    basics.interleaved_envs_do_not_disturb,
    rewards.tasks_are_sound,
    basics.same_bytes_in_another_process,
    basics.seed_moves_only_noise,
    basics.limits_hold,
    faults.faults_keep_the_form,
    laws.rollback_undoes_a_detour,
    info.info_is_the_callers,
    laws.start_law,
    laws.random_walks_keep_the_laws,
    laws.deep_lineage,
    laws.handles_travel,
    laws.histories_travel,
    laws.forks_outlive_their_parent,
    leaks.nothing_leaks,
    basics.vectors_agree,
    rewards.oracle_passes_every_task,
    rewards.nobody_else_passes,
    rewards.hedged_answers_fail,
    hostile.survives_hostile_texts,
    hostile.survives_hostile_arguments,
    rewards.tasks_stay_as_they_are,
)


def check_tool_env(
    env: str | Maker, *, examples: int = 30, depth: int = 100, tasks: int | None = None
) -> None:
    """Check everything that DESIGN promises of an environment; AssertionError says what to fix.

    `env` is an id, or a factory (a ToolEnv class will do) that takes the arguments of `make`; an
    id is checked more thoroughly, in vectors and other processes too. `examples` random walks test
    the laws of snapshots, `depth` snapshots are taken in one line, and of each split the first
    `tasks` tasks are played (all by default). Needs `hypothesis`.

    What an env calls volatile it must not show in the moves that are drawn from its schemas.
    """
    subject = Subject.of(env, examples, depth, tasks)
    for check in CHECKS:
        run_check(check, subject)


def run_check(check: Callable[[Subject], None], subject: Subject) -> None:
    """One of them; the AssertionError names the env and the check."""
    name = f"{subject.name}: {check.__name__.replace('_', ' ')}"
    try:
        check(subject)
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}") from error
    except Exception as error:
        raise AssertionError(f"{name}: it raised {error!r}") from error
