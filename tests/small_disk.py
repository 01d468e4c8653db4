"""Writing where there is no room: shared by the tests of files and of checkpoints."""

import os
import resource

from positively.errors import FileError


def in_a_child_with_a_small_disk(write, path):
    """Let a forked child, whose files may not grow beyond 20 KB, write; return the sentence it got."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            write(path)
            message = "written"
        except FileError as error:
            message = str(error)
        except BaseException as error:
            message = repr(error)
        os.write(writer, message.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as file:
        return file.read()
