# stockade run --tools tools.yaml agent.py
# No import: each tool that the policy lists is a function, and help(search_notes) describes it.
notes = search_notes("wall", most=5)
print(f"{len(notes)} notes on walls")
for note in notes:
    print(f"- {note['title']}: {note['text']}")
