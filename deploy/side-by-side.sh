#!/usr/bin/env bash
# side-by-side.sh FOLDER NAME[:AFTER] COMMAND [NAME[:AFTER] COMMAND ...]
#
# Runs test commands at the same time, each with its output in FOLDER/NAME.log; one with
# AFTER begins when the command of that name, given before it, has ended, however it did.
# Shows when a test begins and ends. The whole output of a command that fails comes at the
# end, then what each took: the time it ran for, and the processors' time it used (of
# guests too, once they have ended), and last the tests that failed with what they said,
# which is found there without reading the rest. Ends with 1 if any failed. An interruption
# is passed on to all of them.
set -uo pipefail
set -m # each command is a process group of its own, so that all of it can be interrupted
folder=$1
shift
mkdir -p "$folder"
names=() pids=()
declare -A pid_of
interrupt() {
  for pid in "${pids[@]}"; do kill -INT -- "-$pid" 2>/dev/null; done
  wait
  exit 130
}
trap interrupt INT TERM HUP
TIMEFORMAT='%0lR %0lU %0lS'
# run NAME COMMAND: the output goes to the log, what it took to a file beside it.
run() {
  local log=$folder/$1.log
  set -o pipefail
  { time bash -c "$2" 2>&1; } 2>"$folder/$1.took" | tee "$log" |
    grep --line-buffered -E '^(=== RUN +[^/]*$|--- |ok |FAIL|panic)' | sed -u "s/^/$1: /"
  return "${PIPESTATUS[0]}"
}
while [ $# -ge 2 ]; do
  name=${1%%:*} after=${1#"${1%%:*}"}
  (
    [ -z "$after" ] || tail -f /dev/null --pid "${pid_of[${after#:}]}"
    run "$name" "$2"
  ) &
  names+=("$name") pids+=($!) pid_of[$name]=$!
  shift 2
done
failed=()
for i in "${!pids[@]}"; do
  wait "${pids[$i]}" || failed+=("${names[$i]}")
done
for name in ${failed[@]+"${failed[@]}"}; do
  echo "==> $name failed: $folder/$name.log"
  cat "$folder/$name.log"
done
for name in "${names[@]}"; do
  read -r real user sys <"$folder/$name.took"
  printf '%-12s took %7s, used %7s and %7s in the kernel\n' "$name" "$real" "$user" "$sys"
done
[ ${#failed[@]} -gt 0 ] || exit 0
for name in "${failed[@]}"; do
  echo "==> what failed in $name:"
  awk -f "$(dirname "$0")/failed-tests.awk" "$folder/$name.log" | head -n 200
done
for name in "${failed[@]}"; do
  echo "==> what was wrong in $name:"
  awk -v brief=1 -f "$(dirname "$0")/failed-tests.awk" "$folder/$name.log" | head -n 60
done
echo "failed: ${failed[*]}"
exit 1
