"""`check_tool_env`: the list of all checks, in the order in which failures are easiest to read."""

from collections.abc import Callable

from agent_envs.testing import (
    basics,
    earnings,
    elsewhere,
    faults,
    gold,
    hostile,
    info,
    laws,
    leaks,
    rewards,
    tasks,
)
from agent_envs.testing.play import Maker, Subject

MOST = 2000
"""The longest error text that is handed on, in characters."""

CHECKS: tuple[Callable[[Subject], None], ...] = (
    basics.takes_the_arguments_of_make,
    basics.ships_an_oracle,
    tasks.tasks_are_sound,
    tasks.splits_are_disjoint,
    info.info_has_its_form,
    info.tools_meet_no_bugs,
    basics.leaves_global_random_state_alone,
    basics.same_seed_same_bytes,
    basics.passes_gymnasiums_own_check,
    basics.spec_survives_json_and_pickle,
    basics.interleaved_envs_do_not_disturb,
    elsewhere.same_bytes_in_another_process,
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
    leaks.memory_does_not_grow,
    basics.vectors_agree,
    rewards.oracle_passes_every_task,
    earnings.silence_earns_nothing,
    earnings.calls_are_no_income,
    gold.prompts_do_not_tell,
    gold.error_texts_do_not_tell,
    rewards.nobody_else_passes,
    rewards.hedged_answers_fail,
    hostile.survives_hostile_texts,
    hostile.survives_hostile_arguments,
    tasks.tasks_stay_as_they_are,
)


def check_tool_env(
    env: str | Maker, *, examples: int = 30, depth: int = 100, tasks: int | None = None
) -> None:
    """Check everything that DESIGN promises of an environment; AssertionError says what to fix.

    `env` is an id, or a factory (a ToolEnv class will do) that takes the arguments of `make`; an
    id is checked more thoroughly, in vectors and other processes too. `examples` random walks test
    the laws of snapshots, `depth` snapshots are taken in one line. Of each split the oracle plays
    the first `tasks` tasks (all by default), and others who must not be paid play a spread of
    these. An env that is not `inline` is tried less often where that is costly. Needs
    `hypothesis`; raises RuntimeError under `python -O`, which takes the checks away, ValueError
    for an unknown id and TypeError for what is neither.

    What an env calls volatile it must not show in the moves that are drawn from its schemas.
    """
    if not __debug__:
        raise RuntimeError("python -O leaves assertions out, and so all checks: run without -O")
    subject = Subject.of(env, examples, depth, tasks)
    for check in CHECKS:
        run_check(check, subject)


def run_check(check: Callable[[Subject], None], subject: Subject) -> None:
    """One of them; the AssertionError names the env and the check."""
    name = f"{subject.name}: {check.__name__.replace('_', ' ')}"
    try:
        check(subject)
    except AssertionError as error:
        raise AssertionError(f"{name}: {str(error)[:MOST]}") from _short(error)
    except (Exception, SystemExit) as error:
        raise AssertionError(f"{name}: it raised {error!r:.{MOST}}") from _short(error)


def _short(error: BaseException) -> BaseException:
    """The error itself, or one that says its beginning: a traceback prints all of its causes."""
    text = ""
    link: BaseException | None = error
    while link is not None and len(text) <= 2 * MOST:
        text, link = text + str(link), link.__cause__ or link.__context__
    if len(text) <= 2 * MOST:
        return error
    return RuntimeError(f"{error!r:.{MOST}}").with_traceback(error.__traceback__)
