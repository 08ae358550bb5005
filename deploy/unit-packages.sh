#!/bin/sh
# unit-packages.sh [-short] "RACED FOLDER ..." GREP-OPTION...: prints the packages of the unit tests: all but those that grep
# finds, and but those below the folders whose tests the race detector runs. It has the short form of those tests; without
# -short, packages where testing.Short shortens tests, their own or those of a backend, are printed too.
set -eu
short=
if [ "$1" = -short ]; then short=yes && shift; fi
raced=$(echo "$1" | tr ' ' '|')
shift
module=$("${GO:-go}" list -m)
packages=$("${GO:-go}" list -f '{{.ImportPath}} {{.Dir}}' ./...) # what fails in front of a pipe fails unseen
shortened() { [ -z "$short" ] && grep -qs -e 'testing\.Short()' -e '"'"$module"'/executor/backendtest"' "$1"/*.go; }
echo "$packages" | while read -r package dir; do
  if echo "$package" | grep -q "$@"; then continue; fi
  if echo "$package" | grep -Eq "^$module/($raced)(/|$)" && ! shortened "$dir"; then continue; fi
  echo "$package"
done
