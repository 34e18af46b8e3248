"""What ``dynetjax --help`` prints."""

from typing import Final

USAGE: Final = """\
Runs a program that was written for DyNet: what it imports as `dynet` is dynetjax.

  dynetjax [--py2] program.py ARGS        run it; --py2: it is written in Python 2
  dynetjax [--py2] -m package.module ARGS
  dynetjax --processes N [--sum] [--patience SECONDS] program.py ARGS
                                          in N processes, which train one model
  dynetjax --hosts N --host K --coordinator ADDRESS:PORT [--processes N] program.py ARGS
                                          on N machines, of which this is number K
  dynetjax check program.py ...           what will differ in a program, line by line
  dynetjax doctor                         what is installed, whether it works, how fast
  dynetjax --version

`python -m dynetjax` does the same.
"""
# By flag; in DyNet most of them are the same.
FLAGS: Final = {
    "--dynet-mem MB": "taken, and means nothing: memory is used as it is needed",
    "--dynet-seed N": "of random numbers; 0: another one in every run",
    "--dynet-autobatch N": "taken, and means nothing: nodes are always batched",
    "--dynet-profiling N": "1: print statistics at the end; 2: and times of operations",
    "--dynet-weight-decay X": "of parameters, from 0 to below 1",
    "--dynet-gpus N": "how many GPUs to use",
    "--dynet-gpu": "use one GPU",
    "--dynet-devices NAMES": "auto, CPU, GPU:0 and the like, with commas between",
    "--dynet-precision P": "of products on a device: float32, tensorfloat32, bfloat16",
    "--dynet-viz": "draw graphs, and compute nothing",
    "--dynet-trust": "let files of load() run code",
    "--dynet-shared-parameters": "refused: see --processes",
}
VARIABLES: Final = {
    "DYNETJAX_CACHE_DIR": "folder of byte code and compiled programs; off: keep none",
    "DYNETJAX_THREADS": "how many processors compute on the CPU",
    "DYNETJAX_LEVEL": "plain or x86-64-v3: the instructions to use at most",
    "DYNETJAX_TRACEBACK": "full: errors show the frames of dynetjax, too",
    "DYNETJAX_PLAIN_IMPORT": "1: importing changes nothing in the process",
    "JAX_PLATFORMS": "cpu, cuda or tpu: JAX's own",
}


def text() -> str:
    """Every command, flag and variable."""
    blocks = [USAGE]
    tables = ("Flags of the program", FLAGS), ("Environment variables", VARIABLES)
    for title, rows in tables:
        width = 2 + max(map(len, rows))
        lines = [f"  {name:{width}}{meaning}" for name, meaning in rows.items()]
        blocks.append("\n".join([f"{title}:", "", *lines, ""]))
    return "\n".join(blocks)
