#!/bin/sh
# PID 1 of a guest. Its root is the host's, read-only; /tmp is a tmpfs, and the folder
# named by lab= is the one that it may write to on the host.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
arg() { sed -n "s/.*\\b$1=\\([^ ]*\\).*/\\1/p" /proc/cmdline; }
busybox insmod "/usr/lib/uml/modules/$(uname -r)/kernel/drivers/block/loop.ko"
mount -t tmpfs -o size=900m tmpfs /tmp
mkdir /tmp/lab
mount -t hostfs -o "$(arg lab)" none /tmp/lab
/tmp/lab/guest.test -test.v -test.run "$(arg run)" >/tmp/lab/out 2>&1
echo $? >/tmp/lab/rc
dmesg >/tmp/lab/dmesg
sync
exec busybox poweroff -f
