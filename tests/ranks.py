"""Two processes that talk to each other, as the tests need them."""

import os

import torch.distributed as dist
import torch.multiprocessing as multiprocessing

_SECONDS = 240


def on_two_processes(function, folder, *arguments):
    """Call ``function(rank, folder, *arguments)`` on two processes of one group; what they found lies in the folder."""
    context = multiprocessing.spawn(_one, (function, folder, *arguments), nprocs=2, join=False)
    try:
        assert context.join(timeout=_SECONDS) or context.join(timeout=_SECONDS), "a process hangs"
    finally:
        for process in context.processes:
            process.kill()


def _one(rank, function, folder, *arguments):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    function(rank, folder, *arguments)
    dist.barrier()  # neither is gone while the other still needs it
    os._exit(0)  # taking a group down aborts the process now and then: gloo's threads may still run
