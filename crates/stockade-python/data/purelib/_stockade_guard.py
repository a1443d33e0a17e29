"""Started by ``stockade.pth``: refuses ``import agent_sandbox`` where agt-sandbox has replaced it."""

import sys


class _Guard:
    """Imports nothing until a program imports the package: every interpreter starts with this."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname == "agent_sandbox":
            from stockade import _conflict

            _conflict.refuse()
        return None


sys.meta_path.insert(0, _Guard)
