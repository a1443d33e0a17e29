)

_offered = {"call_tool": call_tool, "ToolError": ToolError, "ToolDenied": ToolDenied}
for _tool, _name, _, _document in _listed:
    if _name is not None:
        _offered[_name] = _function(_tool, _name, _document)
