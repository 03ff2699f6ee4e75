"""GPU slots: held by a lock of the operating system, freed when the holder dies, whatever kills it."""

import signal
import subprocess
import sys
import time

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.gpus import GpuSlots, devices


@pytest.fixture
def slots(tmp_path):
    return GpuSlots(tmp_path, ["0", "1"])


def test_no_slot_is_handed_out_twice_not_even_by_another_run_in_the_same_folder(slots, tmp_path):
    other = GpuSlots(tmp_path, ["0", "1"])
    one, two = slots.acquire(1), other.acquire(1)
    assert (one.names, two.names) == (("0",), ("1",))
    assert slots.acquire(1) is None
    one.close()
    assert other.acquire(1).names == ("0",)


def test_several_slots_are_taken_together_or_not_at_all(slots):
    one = slots.acquire(1)
    assert slots.acquire(2) is None
    rest = slots.acquire(1)  # the failed request kept nothing
    assert rest.names == ("1",)
    one.close()
    rest.close()
    assert slots.acquire(2).names == ("0", "1")


def test_a_step_without_gpus_takes_no_slot_even_where_there_is_none(tmp_path):
    assert GpuSlots(tmp_path, []).acquire(0).names == ()


def test_more_gpus_than_the_machine_has_are_refused_at_once(slots):
    with pytest.raises(InvalidInput, match="asks for 3 GPUs, but this machine offers 2"):
        slots.acquire(3)


def test_a_slot_is_freed_when_the_process_that_inherited_it_is_killed(slots):
    held = slots.acquire(2)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=held.files)
    held.close()
    assert slots.acquire(1) is None  # the child holds them, though this process closed its files
    child.send_signal(signal.SIGKILL)
    child.wait()
    until = time.monotonic() + 5
    while (found := slots.acquire(2)) is None and time.monotonic() < until:
        time.sleep(0.01)
    assert found is not None


def test_only_the_gpus_that_this_process_may_see_are_offered(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert devices() == ["3", "5"]
    assert devices(1) == ["3"]
    with pytest.raises(InvalidInput, match=r"local.gpus is 3, but CUDA_VISIBLE_DEVICES shows 2"):
        devices(3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices() == []
    assert devices(2) == ["0", "1"]
