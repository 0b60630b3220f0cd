# ruff: noqa: E501
"""Attacks on a sandbox: code, how its call must end, and what its value must be.

Every one of them is followed by a next call and a rollback, which must find what was there before.
"""

from collections.abc import Callable
from dataclasses import dataclass

PRELUDE = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def sc(*a):
    r = libc.syscall(*a)
    return 'WORKED' if r >= 0 else errno.errorcode[ctypes.get_errno()]
def tr(f, *a, **k):
    try: return ('WORKED', f(*a, **k))
    except BaseException as e: return type(e).__name__
"""
Check = Callable[[str], bool]


def refused(value: str) -> bool:
    """Nothing in a list of outcomes worked."""
    return "WORKED" not in value


@dataclass(frozen=True)
class Attack:
    """`{victim}`, `{zygote}` and `{host}` in the code are pids of processes outside; `{frozen}` are
    those of the supervisor and the frozen copies, as they are seen inside."""

    name: str
    code: str
    ended: tuple[str, ...] = ("ok",)
    check: Check | None = None
    """Of the value."""
    seconds: float = 5.0
    keeps: bool = True
    """The next call finds `keep` as it was before: not where the call itself may change it."""
    backends: tuple[str, ...] = ("namespace", "landlock")


REFUSALS = [
    Attack(
        "host files",
        "[tr(os.listdir, p) for p in ('/root', '/home', '/proc', '/proc/1', '/sys', '/var')]"
        " + [tr(open, p) for p in ('/etc/passwd', '/etc/shadow', '/proc/self/environ',"
        " '/proc/{zygote}/environ', '/proc/{host}/mem', '{secret}')]",
        check=lambda v: "open" not in v and v.count("WORKED") <= 1,
    ),
    Attack(
        "writes to the host",
        "[tr(open, p, 'w') for p in ('/usr/x', '/x', '/etc/x', '{secret}')]",
        check=refused,
    ),
    Attack(
        "host files, without opening them",
        "[tr(os.rename, '{secret}', 'x'), tr(os.link, '{secret}', 'x'), tr(os.remove, '{secret}'),"
        " tr(os.truncate, '{secret}', 0), tr(os.symlink, 'x', '/usr/y'), tr(os.mkdir, '/usr/z')]",
        check=refused,
    ),
    Attack("environment", "sorted(os.environ)", check=lambda v: "SECRET" not in v and "HOME" in v),
    Attack(
        "descriptors of the host",
        "len([i for i in range(3, 200) if tr(os.fstat, i)[0] == 'WORKED'])",
        check=lambda v: v == "2",
    ),
    Attack(
        "network",
        "import socket\n[tr(socket.socket, f, t) for f, t in ((2, 1), (2, 2), (10, 1), (16, 3), (17, 3))]",
        check=refused,
    ),
    Attack(
        "abstract and path sockets of the host",
        "import socket\n"
        "def to(address):\n    s = socket.socket(1, 1)\n    s.connect(address)\n"
        "[tr(to, '\\0{abstract}'), tr(to, '{socket}')]",
        check=refused,
    ),
    Attack("own socket pairs work", "import socket\n[x.close() for x in socket.socketpair()]"),
    Attack(
        "signals that come later, and a hold on a process without a call that names it",
        "import socket\na, b = socket.socketpair()\n"
        "[sc(222, 1, None, ctypes.byref(ctypes.c_long())), tr(a.getsockopt, 1, 77),"
        " tr(a.setsockopt, 1, 76, 1)] + [a.close(), b.close()]",
        check=refused,
    ),
    Attack(
        "process groups of frozen copies",
        "pid = os.fork()\nif pid == 0:\n  import time; time.sleep(9)\n"
        "said = [tr(os.setpgid, pid, p) for p in {frozen}]\nos.kill(pid, 9); os.waitpid(pid, 0)\nsaid",
        check=refused,
    ),
    Attack(
        "kill by number",
        "[tr(os.kill, p, 9) for p in (-1, 1, 2, 3, {zygote}, {victim}, {host}, os.getppid())]",
        check=refused,
    ),
    Attack(
        "kill of groups",
        "[tr(os.kill, -2, 9), tr(os.killpg, 2, 9), tr(os.killpg, 3, 9), tr(os.killpg, {victim}, 9),"
        " tr(os.killpg, {zygote}, 9)]",
        check=refused,
    ),
    Attack(
        "the supervisor and frozen copies by their numbers",
        "import signal as s\n"
        "[[tr(os.kill, p, 9), tr(os.killpg, p, 9), tr(os.pidfd_open, p), sc(200, p, 9), sc(234, p, p, 9),"
        " sc(129, p, 9, bytes(128)), sc(101, 16, p, 0, 0), sc(101, 0x4206, p, 0, 0), sc(310, p, 0, 0, 0, 0, 0),"
        " sc(302, p, 7, (ctypes.c_ulong * 2)(0, 0), None), sc(141, 0, p, 19), sc(203, p, 8, bytes(8)),"
        " tr(open, f'/proc/{p}/mem', 'wb'), tr(os.listdir, f'/proc/{p}/fd')] for p in {frozen}]",
        check=lambda v: refused(v) and v.count("[") > 3,
    ),
    Attack(
        "other calls that signal",
        "[sc(129, p, 9, bytes(128)) for p in (2, 3, 1, {victim}, os.getppid())]"
        " + [sc(297, 2, 2, 9, bytes(128)), sc(200, 2, 9), sc(234, 2, 2, 9), sc(200, {victim}, 9)]",
        check=refused,
    ),
    Attack(
        "pidfd of others",
        "[sc(434, p, 0) for p in (1, 2, 3, {victim}, {zygote}, os.getppid())]",
        check=refused,
    ),
    Attack(
        "signals by descriptor owner",
        "import fcntl\nr, w = os.pipe()\n"
        "[tr(fcntl.fcntl, r, c, 2) for c in (8, 10, 15)]"
        " + [tr(fcntl.ioctl, r, c, b'\\2\\0\\0\\0') for c in (0x8901, 0x8902)]",
        check=refused,
    ),
    Attack(
        "high bits in an ioctl or fcntl command",
        "r, w = os.pipe()\n"
        "[sc(16, r, ctypes.c_ulong(0x100000000 + 0x8901), b'\\2\\0\\0\\0'),"
        " sc(72, r, ctypes.c_ulong(0x100000000 + 8), 2)]",
        check=refused,
    ),
    Attack(
        "ptrace and memory of others",
        "[sc(101, 16, 2, 0, 0), sc(101, 0, 0, 0, 0), sc(310, 2, 0, 0, 0, 0, 0),"
        " sc(311, 2, 0, 0, 0, 0, 0), sc(438, 3, 0, 0), sc(312, 1, 2, 0, 0, 0)]",
        check=refused,
    ),
    Attack(
        "limits and priority of others",
        "[sc(302, 2, 7, (ctypes.c_ulong * 2)(0, 0), None), sc(302, {victim}, 7, None, None),"
        " sc(141, 0, 2, 19), sc(203, 2, 8, bytes(8)), sc(144, 0, 0, bytes(8))]",
        check=refused,
    ),
    Attack(
        "own limits",
        "import resource as r\n[tr(r.setrlimit, r.RLIMIT_AS, (-1, -1)), tr(r.setrlimit, r.RLIMIT_NPROC, (9999, 9999)),"
        " tr(r.prlimit, 0, r.RLIMIT_NPROC, (9, 9))]",
        check=refused,
    ),
    Attack(
        "hiding from the supervisor",
        "[sc(157, o, 0, 0, 0, 0) for o in (1, 4, 36, 35, 59, 62)] + [sc(157, 22, 2, 0, 0, 0), sc(317, 0, 0, 0)]",
        check=refused,
    ),
    Attack(
        "nested namespaces and mounts",
        "[sc(272, 0x10000000), sc(272, 0x20000), sc(56, 0x10000011, 0, 0, 0, 0), sc(435, bytes(88), 88),"
        " sc(165, b'none', b'/tmp', b'tmpfs', 0, 0), sc(161, b'/tmp'), sc(304, 3, bytes(64), 0), sc(308, 0, 0),"
        " sc(428, -100, b'/', 0), sc(430, b'tmpfs', 0)]",
        check=refused,
    ),
    Attack(
        "nested namespaces by a program",
        "import subprocess\nsubprocess.run(['unshare', '-Ur', 'id']).returncode",
        check=lambda v: v != "0",
    ),
    Attack(
        "x32 numbers",
        "[sc(0x40000000 + 39), sc(0x40000000 + 62, 2, 9)]",
        check=lambda v: v == "['ENOSYS', 'ENOSYS']",
    ),
    Attack(
        "kernel doors",
        "[sc(n, 0, 0, 0, 0, 0) for n in (321, 298, 250, 248, 323, 425, 447, 246, 313, 169, 135, 153)]",
        check=refused,
    ),
    Attack(
        "TIOCSTI and terminals",
        "import fcntl\n[tr(fcntl.ioctl, 0, 0x5412, b'x'), tr(fcntl.ioctl, 0, 0x541C, b'x'),"
        " sc(16, 0, ctypes.c_ulong(0x100005412), b'x'), tr(open, '/dev/tty'), tr(os.openpty)]",
        check=refused,
    ),
    Attack(
        "SysV and POSIX queues",
        "[sc(29, 1, 4096, 0o1600), sc(64, 1, 1, 0o1600), sc(68, 1, 0o1600), sc(240, b'q', 0o102, 0o600, 0)]",
        check=refused,
    ),
    Attack(
        "extended attributes",
        "open('f', 'w').close()\n[tr(os.setxattr, 'f', 'user.x', b'1')]",
        check=refused,
    ),
    Attack(
        "a sibling that shares memory",
        "[sc(56, flags, 0, 0, 0, 0) for flags in (0x8111, 0x8411, 0xC111, 0x8211)]",
        check=refused,
    ),
    Attack(
        "devices",
        "[tr(os.mknod, 'd', 0o20666, 0x103), tr(open, '/dev/mem'), tr(open, '/dev/kvm')]",
        check=refused,
    ),
]

BOMBS = [
    Attack(
        "forks", "while True:\n  try: os.fork()\n  except OSError: pass", ("timeout",), seconds=1
    ),
    Attack(
        "forks that detach",
        "while True:\n  try:\n    if os.fork() == 0: os.setsid()\n  except OSError: pass",
        ("timeout", "memory"),
        seconds=1,
    ),
    Attack(
        "threads",
        "import threading, time\nn = 0\ntry:\n"
        "  while True: threading.Thread(target=time.sleep, args=(99,), daemon=True).start(); n += 1\n"
        "except RuntimeError: pass\nn",
        check=lambda v: int(v) < 70,
    ),
    Attack("memory", "x = bytearray(2 << 30)", ("memory",)),
    Attack(
        "memory of many processes",
        "import time\nfor i in range(6):\n  if os.fork() == 0:\n    x = bytearray(60 << 20)\n    time.sleep(9)\n"
        "x = bytearray(60 << 20)\ntime.sleep(9)",
        ("memory", "timeout"),
        seconds=1,
    ),
    Attack(
        "a large file", "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))", ("error",)
    ),
    Attack("output", "while True: print('A' * 10**6)", ("output",)),
    Attack(
        "CPU, with every signal ignored",
        "import signal\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nwhile True: pass",
        ("timeout",),
        seconds=0.5,
    ),
    Attack(
        "a repr without end",
        "class R:\n  def __repr__(s):\n    while True: pass\nR()",
        ("timeout",),
        seconds=0.5,
    ),
    Attack("recursion", "def f(): f()\nf()", ("error",)),
    Attack(
        "recursion into the stack's end",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        ("killed", "error", "memory", "timeout"),
        seconds=3,
    ),
    Attack("a sparse file", "f = open('s', 'wb'); f.truncate(1 << 50)", ("error",)),
    Attack(
        "descriptors",
        "l = []\ntry:\n  while True: l.append(os.open('/dev/null', 0))\nexcept OSError: pass\nn = len(l)\nfor f in l: os.close(f)\nn < 300",
        check=lambda v: v == "True",
    ),
]

TRICKS = [
    Attack("stopping itself", "os.kill(os.getpid(), 19)", ("timeout",), seconds=0.5),
    Attack(
        "double fork and detach",
        "import time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(60)\n  os._exit(0)\n'left'",
        check=lambda v: v == "'left'",
    ),
    Attack(
        "a process whose first thread has ended",
        "import threading, time\ndef beat():\n  while True: open('beat', 'a').write('.'); time.sleep(.001)\n"
        "if os.fork() == 0:\n  threading.Thread(target=beat).start()\n  libc.syscall(60, 0)\n"
        "time.sleep(.1)\nclass Beats:\n  def __eq__(s, n): return n == 42 and os.stat('beat').st_size == (time.sleep(.1), os.stat('beat').st_size)[1]\n"
        "  def __repr__(s): return '42' if s == 42 else 'it goes on'\nkeep = Beats()",
    ),
    Attack(
        "replaced functions of the standard library",
        "import json, random, signal, socket\nos.fork = lambda: 0\nos._exit = lambda n: None\n"
        "json.dumps = lambda *a, **k: '{\"value\": \"forged\"}'\njson.loads = lambda *a: {'code': 'keep = 999'}\n"
        "random.setstate = None\nos.dup2 = os.close = os.write = None\nsocket.socket = None\nos.setpgid = None",
        ("ok", "killed"),
        keeps=False,
    ),
    Attack(
        "forged words, replies and descriptors",
        "import socket, array, time\nfor fd in range(3, 30):\n  try:\n    s = socket.socket(fileno=os.dup(fd))\n"
        "    s.sendmsg([b'done'], [(1, 1, array.array('i', [0, 1, 2]))])\n    s.send(b'hello')\n  except OSError: pass\n"
        'for i in range(3, 30):\n  try: os.write(i, b\'{"value": "forged"}\' * 50)\n  except OSError: pass\ntime.sleep(.1)',
        ("ok", "killed"),
        keeps=False,
    ),
    Attack(
        "a forged word",
        "import time\nfor fd in range(3, 30):\n  try: os.write(fd, b'doner')\n  except OSError: pass\ntime.sleep(59)",
        ("killed",),
        seconds=60,
    ),
    Attack(
        "an empty word",
        "import socket, time\nfor fd in range(3, 30):\n  try: socket.socket(fileno=fd).send(b'')\n  except OSError: pass\ntime.sleep(59)",
        ("killed",),
        seconds=60,
    ),
    Attack(
        "a child that says done for its parent",
        "import socket, time\nif os.fork() == 0:\n  for fd in range(3, 30):\n    try: socket.socket(fileno=fd).send(b'done')\n"
        "    except OSError: pass\n  time.sleep(9)\ntime.sleep(.2)\n5",
        check=lambda v: v == "5",
    ),
    Attack(
        "a reply that trickles",
        "import stat, time\npipes = [fd for fd in range(3, 12) if tr(os.fstat, fd)[0] == 'WORKED' and stat.S_ISFIFO(os.fstat(fd).st_mode)]\n"
        "while True:\n  for fd in pipes: os.write(fd, b'x')\n  time.sleep(.05)",
        ("timeout",),
        seconds=0.5,
    ),
    Attack(
        "a reply without end",
        "import stat\npipes = [fd for fd in range(3, 12) if tr(os.fstat, fd)[0] == 'WORKED' and stat.S_ISFIFO(os.fstat(fd).st_mode)]\n"
        "while True:\n  for fd in pipes: os.write(fd, b'[' * 4096)",
        ("output", "timeout"),
        seconds=2,
    ),
    Attack(
        "a reply that nests",
        "for fd in range(3, 12):\n  try: os.write(fd, b'[' * 40000)\n  except OSError: pass\nos._exit(0)",
        ("killed",),
    ),
    Attack(
        "reading its own command socket",
        "import threading, socket\ndef g(fd):\n  while True:\n    try: socket.socket(fileno=os.dup(fd)).recv(9999)\n    except OSError: return\n[threading.Thread(target=g, args=(f,), daemon=True).start() for f in range(3, 12)]\n1",
        ("ok", "killed"),
    ),
    Attack(
        "handlers in a stopped state",
        "import signal\ndef h(*a):\n  global keep; keep = 777\nfor s in (signal.SIGALRM, signal.SIGCONT, signal.SIGCHLD): signal.signal(s, h)\nsignal.setitimer(signal.ITIMER_REAL, .01, .01)\nkeep = 42",
        ("ok", "killed"),
    ),
    Attack(
        "a thread that goes on",
        "import threading\ndef f():\n  global keep\n  while True: keep = 666\nthreading.Thread(target=f, daemon=True).start()",
        keeps=False,
    ),
    Attack(
        "a thread that wants its turn at once",
        "import sys, threading\nsys.setswitchinterval(1e-6)\ndef f():\n  while True: pass\nthreading.Thread(target=f, daemon=True).start()",
    ),
    Attack(
        "a fork hook that hangs",
        "import time\nos.register_at_fork(after_in_child=lambda: time.sleep(99))",
        keeps=False,
    ),
    Attack(
        "a fork hook that exits",
        "os.register_at_fork(after_in_child=lambda: os._exit(0))",
        keeps=False,
    ),
    Attack(
        "deep folders",
        "d = os.getcwd()\nfor i in range(1500): os.mkdir('d'); os.chdir('d')\nos.chdir(d)",
        ("ok",),
    ),
    Attack(
        "odd names, links, a FIFO",
        "os.symlink('/etc/passwd', 'l'); os.mkfifo('f'); open(b'\\xff\\n;$(x)', 'w').close(); os.symlink('.', 'loop')\nlen(os.listdir('.'))",
        check=lambda v: v == "4",
    ),
    Attack(
        "locked folders",
        "os.mkdir('q'); open('q/x', 'w').close(); os.mkdir('r', 0); os.chmod('q', 0); os.chmod('.', 0)",
        ("ok",),
    ),
    Attack(
        "vfork while done is said",
        "import socket, threading\ndef g():\n  import time; time.sleep(.05)\n  for fd in range(3, 30):\n    try: socket.socket(fileno=os.dup(fd)).send(b'done')\n    except OSError: pass\nthreading.Thread(target=g).start()\nlibc.vfork() or libc.pause()",
        ("ok", "timeout", "killed"),
        seconds=1.5,
        keeps=False,
    ),
]

ATTACKS = [*REFUSALS, *BOMBS, *TRICKS]
