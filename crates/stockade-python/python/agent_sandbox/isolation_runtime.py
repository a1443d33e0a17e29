"""The runtimes of containers."""

from enum import Enum


class IsolationRuntime(str, Enum):
    """What runs a container."""

    RUNC = "runc"
    """The host's kernel."""
    GVISOR = "runsc"
    """gVisor, a kernel in user space."""
    KATA = "kata-runtime"
    """A virtual machine."""
    AUTO = "auto"
    """The strongest that starts."""
