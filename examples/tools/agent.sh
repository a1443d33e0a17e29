#!/bin/sh
# stockade run --tools tools.yaml agent.sh
set -eu
notes=$(stockade-tool search_notes '{"word": "wall", "most": 5}')
echo "$(echo "$notes" | grep -o '"title"' | wc -l) notes on walls"
echo "$notes" | sed 's/},{/}\n{/g' | sed 's/.*"title":"\([^"]*\)","text":"\([^"]*\)".*/- \1: \2/'
