"""The tagger, in one of two processes whose device is taken to lie beside the host.

Arguments: port of the coordinator, rank, and those of tagger.py.
"""

import pathlib
import runpy
import sys

import dynetjax.dropin  # noqa: F401  (`import dynet` finds it)
from dynetjax.core.group import PROCESS
from dynetjax.engine.runtime import RUNTIME
from dynetjax.parallel import hosts

port, rank, *words = sys.argv[1:]
hosts.host_sees_device = lambda: False
group = hosts.HostGroup(hosts.Hosts(f"127.0.0.1:{port}", 2, int(rank)), 0, 1)
PROCESS.join(group)
PROCESS.averages = False
RUNTIME.tier = "xla"
meet, arrays = group.collectives.meet, []


def counted(summed, gathered, scale=1.0):
    """Note how many arrays travel by themselves; messages of the host are one."""
    arrays.append(len(summed) + len(gathered))
    return meet(summed, gathered, scale)


group.collectives.meet = counted
program = pathlib.Path(__file__).with_name("tagger.py")
sys.argv = [str(program), *words]
runpy.run_path(str(program))
print(arrays.count(5), "updates", flush=True)
group.end()
