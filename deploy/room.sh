#!/bin/sh
# room.sh GIB [clean]
#
# Fails with one line when less than so many GiB are free where the tests put their disks and the Go build cache: a full
# disk fails tests one by one, with errors that do not name it. With "clean" an older build cache is dropped first.
set -eu
need=$1
GO=${GO:-go}
cache=$("$GO" env GOCACHE)
mkdir -p "$cache"
free() { # folder: GiB that are free
  df -Pk "$1" | awk 'NR == 2 { print int($4 / 1048576) }'
}
enough() {
  [ "$(free "${TMPDIR:-/tmp}")" -ge "$need" ] && [ "$(free "$cache")" -ge "$need" ]
}
if ! enough && [ "${2:-}" = clean ]; then
  echo "less than $need GiB are free: dropping the Go build cache in $cache"
  "$GO" clean -cache || echo "not all of it: another build writes to it now"
fi
enough || {
  echo "the tests need $need GiB: $(free "${TMPDIR:-/tmp}") are free in ${TMPDIR:-/tmp} (TMPDIR names another folder), $(free "$cache") in $cache (go clean -cache empties that)" >&2
  exit 1
}
