"""What a program written for DyNet has compiled, compiled for a device as well.

`report.py` runs it in an environment of `environments.py`. The program itself runs
here, on the host, which is taken for that device. A line of JSON tells what came of it.
"""

import argparse
import contextlib
import json
import pathlib
import runpy
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import capture
import targets

import dynetjax as dy
import dynetjax.dropin
from dynetjax.engine.xla.compiling import Compiled


@contextlib.contextmanager
def noting():
    """A list of what is lowered: functions with the shapes of their arguments."""
    found, lowered = [], Compiled.lowered

    def noted(function, shapes):
        found.append(capture.Call(function, shapes))
        return lowered(function, shapes)

    Compiled.lowered = noted
    yield found
    Compiled.lowered = lowered


def main():
    """Run a program, then compile."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("target", choices=targets.TOPOLOGIES)
    parser.add_argument("updates")
    args = parser.parse_args()
    capture.pretend(args.target)
    dy.init(tier="xla")
    sys.argv[:] = [args.file, "--dynet-seed", "1", "--updates", args.updates]
    quiet, ended = (
        contextlib.redirect_stdout(sys.stderr),
        contextlib.suppress(SystemExit),
    )
    with noting() as calls, quiet, ended:
        runpy.run_path(args.file, run_name="__main__")
    refused = []
    for call in calls:
        try:
            call.lowered(args.target).compile()
        except Exception as error:  # whatever a compiler says
            refused.append(f"{call.name}: {type(error).__name__}: {error}"[:400])
    print(json.dumps({"compiled": len(calls), "refused": refused}), flush=True)


if __name__ == "__main__":
    main()
