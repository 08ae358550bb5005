#!/bin/sh
# Installs /tmp/holdfast.deb in the Debian at ROOT and checks what it did. Everything is done twice.
set -eu
root=$1
fail() { echo "after $1: $2" >&2; exit 1; }
owner() { chroot "$root" stat -c '%U:%G %a' "$1"; }

for time in once twice; do
  chroot "$root" dpkg -i /tmp/holdfast.deb >/dev/null
  [ "$(chroot "$root" id -u holdfast):$(chroot "$root" id -g holdfast)" = 9800:9800 ] || fail "installing $time" "no user holdfast 9800"
  [ "$(owner /etc/holdfast/controller)" = "holdfast:holdfast 700" ] || fail "installing $time" "$(owner /etc/holdfast/controller)"
  [ "$(owner /var/lib/holdfast)" = "root:root 711" ] || fail "installing $time" "$(owner /var/lib/holdfast)"
  for program in holdfast kubectl-holdfast; do
    chroot "$root" "$program" version | grep -q '^holdfast ' || fail "installing $time" "$program version"
  done
  for unit in holdfast-controller holdfast-node holdfast-mounts; do
    state=$(systemctl --root="$root" is-enabled "$unit.service" || true)
    [ "$state" = disabled ] || fail "installing $time" "$unit is $state"
  done
  chroot "$root" systemd-analyze verify --man=no holdfast-controller.service holdfast-node.service holdfast-mounts.service
done

# What an operator wrote stays.
echo '# ours' >>"$root/etc/holdfast/node.yaml"
chroot "$root" dpkg -i --force-confold /tmp/holdfast.deb >/dev/null
grep -q '^# ours' "$root/etc/holdfast/node.yaml" || fail upgrading "the configuration was replaced"
touch "$root/var/lib/holdfast/data"
for time in once twice; do
  chroot "$root" dpkg --purge holdfast >/dev/null 2>&1
  [ ! -e "$root/usr/sbin/holdfast" ] || fail "removing $time" "the program is there"
  [ -e "$root/var/lib/holdfast/data" ] || fail "removing $time" "the data are gone"
done
