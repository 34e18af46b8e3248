"""Environments that have XLA's compilers for CUDA and for TPUs: made by pip, once.

They are of the Python that runs this, so its build of dynetjax's C++ serves in them.
"""

import functools
import importlib.metadata
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = pathlib.Path(
    os.environ.get("DYNETJAX_BENCH_DEVICES") or ROOT / "build" / "devices"
)
PACKAGES = {  # by XLA's platform; the version is that of JAX here
    "cuda": ["jax=={}", "jax-cuda12-plugin=={}", "jax-cuda12-pjrt=={}"],
    "tpu": ["jax[tpu]=={}"],
}
COMPILER = {"cuda": ["nvidia-cuda-nvcc-cu12"], "tpu": []}  # what JAX does not ask for


@functools.cache
def python(platform, folder):
    """The interpreter of an environment, which is made if it is not there."""
    found = folder / platform / "bin" / "python"
    version = importlib.metadata.version("jax")
    packages = [p.format(version) for p in PACKAGES[platform]]
    packages += [*COMPILER[platform], "optax"]
    if not _has(found, version):
        print(f"installing {' '.join(packages)} in {found.parent.parent}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder / platform], check=True)
        command = [found, "-m", "pip", "install", "--disable-pip-version-check", "-q"]
        subprocess.run([*command, *packages], check=True)
    return found


def _has(interpreter, version):
    """Whether an environment has been made, for this version of JAX."""
    code = "import jax, optax; print(jax.__version__)"
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    try:
        done = subprocess.run(
            [interpreter, "-c", code], capture_output=True, text=True, env=environment
        )
    except FileNotFoundError:
        return False
    return done.stdout.strip() == version


def run(interpreter, script, *words, flags=""):
    """What a script of this folder prints: its lines, and what it says if it fails.

    Args:
        flags: for XLA.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if flags:
        environment["XLA_FLAGS"] = flags
    command = [interpreter, HERE / script, *words]
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, env=environment
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not done.returncode:
        return lines, ""
    last = (done.stderr.strip() or "?").splitlines()[-1]
    return lines, f"{script} ends with {done.returncode}: {last[:400]}"
