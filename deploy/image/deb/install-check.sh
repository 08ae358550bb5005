#!/bin/sh
# Installs the package in the folder DEBS into a new Debian, with the packages that it depends on, asks it what it is for, and
# removes it. No service is started: there is no systemd running. Nothing stays, and nothing is mounted afterwards.
set -eu
debs=$1
here=$(cd "$(dirname "$0")" && pwd)
set -- "$debs"/*.deb
[ $# = 1 ] && [ -f "$1" ] || { echo "$debs must have one package: remove the older ones" >&2; exit 1; }
apt-get indextargets --format 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) bookworm main' \
  'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sort -u |
  mmdebstrap --quiet --variant=essential --include=e2fsprogs,xfsprogs,util-linux,mount,kmod,ca-certificates,systemd --format=null \
    --aptopt='APT::Install-Recommends false' \
    --customize-hook="cp '$1' \"\$1/tmp/holdfast.deb\"" \
    --customize-hook="sh '$here/installed.sh' \"\$1\"" bookworm /dev/null -
echo "installed, asked and removed: $1"
