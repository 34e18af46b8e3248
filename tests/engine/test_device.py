"""What is known of the device that programs run on."""

from types import SimpleNamespace

import jax
import pytest

from dynetjax.core import devices
from dynetjax.engine import device

from ..backends import on_cpu


def test_is_the_one_that_was_chosen(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert device.platform() == "gpu"
    for chosen in jax.devices("cpu")[0], "cpu":
        with jax.default_device(chosen):
            assert device.platform() == "cpu"


@pytest.mark.parametrize("sees", [True, False])
def test_what_the_host_does_not_see_is_copied_soon(monkeypatch, sees):
    copied = []
    array = SimpleNamespace(copy_to_host_async=lambda: copied.append(True))
    monkeypatch.setattr(device, "host_sees_device", lambda: sees)
    device.copy_soon(array)
    assert copied == ([] if sees else [True])


class TestWithoutJax:
    """What is known before JAX is imported, which takes longer than small programs."""

    @pytest.fixture(autouse=True)
    def bare(self, monkeypatch):
        """No JAX, and no wish of the user; what is installed here is a CPU's."""
        for name in "JAX_PLATFORMS", *devices._CHOICES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(device, "is_jax_imported", lambda: False)
        monkeypatch.setattr(jax, "default_backend", lambda: "asked")
        devices.is_host_alone.cache_clear()
        yield
        devices.is_host_alone.cache_clear()

    @on_cpu
    def test_the_host_is_alone(self):
        assert device.platform() == "cpu"

    def test_no_gpu_for_each_process(self):
        assert not devices.have_one_each(2)

    @pytest.mark.parametrize(
        ("visible", "processes", "are_enough"),
        [("0,1", 2, True), ("0,1", 3, False), ("0", 1, False), ("-1", 2, False)],
    )
    def test_gpus_for_each_process(
        self, monkeypatch, tmp_path, visible, processes, are_enough
    ):
        (tmp_path / "jax_plugins").mkdir()
        (tmp_path / "jax_plugins" / "abacus.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert devices.have_one_each(processes) is are_enough

    @pytest.mark.parametrize("name", ["jax_plugins/abacus.py", "libtpu/__init__.py"])
    def test_a_module_that_jax_looks_for(self, monkeypatch, tmp_path, name):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
        monkeypatch.syspath_prepend(tmp_path)
        assert device.platform() == "asked"

    def test_an_entry_point(self, monkeypatch, tmp_path):
        about = tmp_path / "abacus-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Name: abacus\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[jax_plugins]\na = abacus\n")
        monkeypatch.syspath_prepend(tmp_path)
        assert device.platform() == "asked"

    @pytest.mark.parametrize(
        ("platforms", "expected"),
        [("cpu", "cpu"), ("cuda", "asked"), ("cuda,cpu", "asked")],
    )
    def test_platforms_that_the_user_names(self, monkeypatch, platforms, expected):
        monkeypatch.setenv("JAX_PLATFORMS", platforms)
        assert device.platform() == expected

    @pytest.mark.parametrize("name", devices._CHOICES)
    def test_other_wishes(self, monkeypatch, name):
        monkeypatch.setenv("JAX_PLATFORMS", "cpu")
        monkeypatch.setenv(name, "abacus")
        assert device.platform() == "asked"
