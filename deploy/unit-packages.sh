#!/bin/sh
# unit-packages.sh "RACED FOLDER ..." GREP-OPTION...: prints the packages of the unit tests: all but those that grep finds, and
# but those below the folders whose tests the race detector runs whole. Where -short shortens tests, a package's own or those
# of a backend, the race detector has the short form, and the unit tests have the whole one.
set -eu
raced=$(echo "$1" | tr ' ' '|')
shift
module=$("${GO:-go}" list -m)
packages=$("${GO:-go}" list -f '{{.ImportPath}} {{.Dir}}' ./...) # what fails in front of a pipe fails unseen
echo "$packages" | while read -r package dir; do
  if echo "$package" | grep -q "$@"; then continue; fi
  if echo "$package" | grep -Eq "^$module/($raced)(/|$)" && ! grep -qs -e 'testing\.Short()' -e '"'"$module"'/executor/backendtest"' "$dir"/*.go; then continue; fi
  echo "$package"
done
