#!/usr/bin/env bash
# side-by-side.sh FOLDER NAME COMMAND [NAME COMMAND ...]
#
# Runs test commands at the same time, each with its output in FOLDER/NAME.log. Shows when
# a test begins and ends; the whole output of a command that fails comes at the end. Ends
# with 1 if any failed. An interruption is passed on to all of them.
set -uo pipefail
set -m # each command is a process group of its own, so that all of it can be interrupted
folder=$1
shift
mkdir -p "$folder"
names=() pids=()
interrupt() {
  for pid in "${pids[@]}"; do kill -INT -- "-$pid" 2>/dev/null; done
  wait
  exit 130
}
trap interrupt INT TERM HUP
while [ $# -ge 2 ]; do
  name=$1 log=$folder/$1.log
  (
    set -o pipefail
    bash -c "$2" 2>&1 | tee "$log" | grep --line-buffered -E '^(=== RUN +[^/]*$|--- |ok |FAIL|panic)' | sed -u "s/^/$name: /"
    exit "${PIPESTATUS[0]}"
  ) &
  names+=("$name") pids+=($!)
  shift 2
done
failed=()
for i in "${!pids[@]}"; do
  wait "${pids[$i]}" || failed+=("${names[$i]}")
done
[ ${#failed[@]} -gt 0 ] || exit 0
for name in "${failed[@]}"; do
  echo "==> $name failed: $folder/$name.log"
  cat "$folder/$name.log"
done
echo "failed: ${failed[*]}"
exit 1
