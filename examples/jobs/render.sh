#!/bin/sh
# A job that takes minutes, and delivers its result to the tool that started it:
#
#   render.sh TITLE FOLDER TOKEN
#
# The folder is named by the call's idempotency key. Making it is the lock: a repeated attempt of the
# tool starts this script again, which then ends at once.
set -u
title=$1 folder=$2 token=$3
mkdir "$folder" 2>/dev/null || exit 0
echo $$ > "$folder/starting" && mv "$folder/starting" "$folder/pid"  # never seen half-written

if sleep "${RENDER_SECONDS:-5}" && printf '%s' "$title" > "$folder/video"; then
    value="{\"bytes\": $(($(wc -c < "$folder/video")))}"
else
    value='{"problem": "the renderer failed"}'
fi

# The server may be away, so try again. The codes 4 and 5 say that nobody waits any more.
while true; do
    outlast finish "$token" --value "$value" --delivery-id rendered --source render.sh
    case $? in 0 | 4 | 5) exit 0 ;; esac
    sleep 5
done
