#!/bin/sh
# A hook of mmdebstrap: extracts into ROOT exactly the packages of LOCK (lines of name=version), without their scripts, and
# lists them where dpkg and scanners look. Nothing is mounted, and nothing of the image runs but busybox, for its links.
set -eu
root=$1 lock=$2
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
debs=$root/tmp/debs
mkdir "$debs"
cd "$debs"
# shellcheck disable=SC2046 # one word a package
apt-get -qq -o APT::Sandbox::User=root download $(grep -v '^#' "$lock")
: >"$root/var/lib/dpkg/status"
for deb in *.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink --numeric-owner
  { dpkg-deb -f "$deb" && printf 'Status: install ok installed\n\n'; } >>"$root/var/lib/dpkg/status"
done
cd /
rm -r "$debs"
chroot "$root" /bin/busybox --install -s
