"""The command ``positively``, and ``python -m positively``."""

import signal
import sys


def main() -> int:
    """Run the command line. Ctrl-C during its imports ends the process without a traceback."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from positively import cli

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
