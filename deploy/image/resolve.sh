#!/bin/sh
# A hook of mmdebstrap: writes what apt would install of the packages that the file PACKAGES names, as lines of
# name=version, to /resolved below ROOT.
set -eu
root=$1 packages=$2
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
# shellcheck disable=SC2046 # one word a package
apt-get install -s --no-install-recommends $(grep -v '^#' "$packages") |
  sed -nE 's/^Inst ([^ :]+)[^ ]* \(([^ ]+) .*/\1=\2/p' | LC_ALL=C sort >"$root/resolved"
test -s "$root/resolved"
