"""Tests that engines on the same GPU load one after the other."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from judges.engines.vllm import loading


def test_two_engines_on_one_gpu_load_one_after_the_other_and_on_two_at_once():
    at_the_door, inside = Event(), Event()

    def second() -> None:
        at_the_door.set()
        with loading("0"):
            inside.set()

    with ThreadPoolExecutor() as threads:
        with loading("0"):
            waits = threads.submit(second)
            assert at_the_door.wait(60)
            with loading("1,2"):
                assert not inside.wait(0.2)
        waits.result(60)
    assert inside.is_set()
