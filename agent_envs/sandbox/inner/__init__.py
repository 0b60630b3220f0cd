"""What runs inside: the zygote, each session's supervisor, and the states that run model code.

These files travel to the zygote in an archive and run under whatever interpreter was chosen, so
they import the standard library and each other, and nothing else of this package.

    zygote      a clean process that clones itself into sessions
    session     builds a session's walls (rooms, seccomp, landlock), then becomes its supervisor
    supervisor  never runs model code; knows which process is which state; answers the host
    state       hostile from its first call on: runs the cells
"""
