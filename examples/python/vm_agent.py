"""A script in a virtual machine of its own; needs `stockade image build --vm default` once."""

from __future__ import annotations

from stockade import Policy, Sandbox


def run_vm_agent(init_script: str) -> str:
    """Boots a machine with 1024 MB and two processors, runs a shell script in it, and returns what
    the script printed."""
    limits = {"max_memory_mb": 1024, "max_cpu": 2.0, "timeout_seconds": 120}
    with Sandbox(Policy.build(defaults=limits), provider="qemu") as machine:
        result = machine.run_code(init_script, language="bash")
    if result.exit_code != 0:
        raise RuntimeError(f"the script ended with {result.exit_code}: {result.stderr}")
    return result.stdout


def main() -> None:
    print(run_vm_agent("uname -sr; nproc; echo ready"), end="")


if __name__ == "__main__":
    main()
