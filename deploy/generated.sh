#!/bin/sh
# Makes the generated code again in a copy and fails when it differs from what is committed.
set -eu
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
find . -name '*.pb.go' -not -path './.cache/*' | sort | xargs sha256sum > "$copy/before"
for folder in fsm/fsmpb raftnode/raftpb executor/session/sessionpb admin/adminpb; do
  sh deploy/protoc.sh "$folder"
done
find . -name '*.pb.go' -not -path './.cache/*' | sort | xargs sha256sum > "$copy/after"
if ! diff "$copy/before" "$copy/after" >/dev/null; then
  echo "generated code differs from its .proto files; run make generate and commit:" >&2
  diff "$copy/before" "$copy/after" | sed -n 's/^> [0-9a-f]*  /  /p' >&2
  exit 1
fi
