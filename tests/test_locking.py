"""One process at a time, also where locks change hands or their files go."""

import threading

from positively.locking import FOREVER, held, remove_lock


def test_a_lock_is_had_by_one_and_free_afterwards(tmp_path):
    path = tmp_path / "locks" / "one.lock"
    with held(path) as first, held(path) as second:
        assert first and not second
    assert path.exists(), "a process that opened it before may still lock it"
    with held(path) as again:
        assert again


def waiting(path, entered, leave):
    """A thread that waits for a lock, and holds it until it is told to leave."""

    def wait():
        with held(path, FOREVER) as is_ours:
            assert is_ours
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_who_waited_and_who_comes_later_never_hold_a_lock_together(tmp_path):
    path, entered, leave = tmp_path / "one.lock", threading.Event(), threading.Event()
    with held(path):
        thread = waiting(path, entered, leave)
        assert not entered.wait(0.2)
    assert entered.wait(20)
    with held(path) as later:
        assert not later
    leave.set()
    thread.join()


def test_a_lock_file_is_removed_only_if_nobody_holds_it(tmp_path):
    path = tmp_path / "one.lock"
    with held(path):
        remove_lock(path)
        assert path.exists()
    remove_lock(path)
    assert not path.exists()


def test_who_waits_for_a_file_that_its_holder_removes_locks_the_next_one(tmp_path):
    path, entered, leave = tmp_path / "one.lock", threading.Event(), threading.Event()
    with held(path):
        thread = waiting(path, entered, leave)
        assert not entered.wait(0.2)
        path.unlink()
    assert entered.wait(20)
    with held(path) as later:
        assert not later
    leave.set()
    thread.join()
