"""The devices that programs are compiled for, none of which need be here."""

import functools
import os

# Read when JAX is imported: no device is looked for, and nothing is kept on disk.
os.environ |= {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "JAX_COMPILATION_CACHE_DIR": "",
    "JAX_PLATFORMS": "cpu",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TPU_SKIP_MDS_QUERY": "1",
}

DEVICES = 8  # of the larger topology
H100 = """
platform_name: "CUDA"
device_description_str: "NVIDIA H100 80GB HBM3"
runtime_version { major: 12 minor: 8 }
dnn_version_info { major: 9 minor: 1 }
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  device_memory_size: 84942979072 memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  shared_memory_per_core: 233472 shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
}
"""
TOPOLOGIES = {  # by target: one device, and eight
    "h100": [
        {"topology_name": "h100", "topology": shape, "target_config": H100}
        for shape in ("1x1x1", f"1x1x{DEVICES}")
    ],
    "v5e": [{"topology_name": "v5e:2x2x1"}, {"topology_name": "v5e:2x4"}],
}
PLATFORMS = {"h100": "cuda", "v5e": "tpu"}  # of XLA, and of the environments
NAMES = {"h100": "gpu", "v5e": "tpu"}  # as JAX calls the platforms


@functools.cache
def devices(target, several=False):
    """One device of this kind, or eight."""
    from jax.experimental import topologies

    topology = TOPOLOGIES[target][several]
    found = topologies.get_topology_desc(platform=PLATFORMS[target], **topology)
    return found.devices if several else found.devices[:1]


def there(target, shapes):
    """The shapes of arguments, as of arrays that lie on the device."""
    import jax

    place = jax.sharding.SingleDeviceSharding(devices(target)[0])
    return jax.tree.map(functools.partial(placed, place), shapes)


def placed(place, x):
    """The shape of an argument that lies at a place."""
    import jax

    weak = getattr(x, "weak_type", False)
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place, weak_type=weak)


def options(target):
    """Those of the options that dynetjax chooses for a device which XLA knows."""
    from dynetjax.engine.xla import internals

    if target != "h100":
        return {}
    wanted = internals.OPTIONS["gpu"] | internals.OPTIONS["one graph"]
    return {name: value for name, value in wanted.items() if knows(target, name, value)}


@functools.cache
def knows(target, name, value):
    """Whether XLA takes an option for this device."""
    import jax

    one = there(target, jax.ShapeDtypeStruct((), "float32"))
    function = jax.jit(lambda x: x + 1, compiler_options={name: value})
    try:
        function.lower(one).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
