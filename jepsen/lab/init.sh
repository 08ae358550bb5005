#!/bin/busybox sh
# PID 1 of a guest. Stage 1 runs on the host's root, mounted read-only, and builds the guest's
# own: an overlay of it and a tmpfs, which vanishes with the guest. Stage 2 runs in there.
# From the kernel's command line: node= number, lab= the guest's folder, top= the lab's, modules= that of the kernel's modules by
# release, net= the third numbers of the three subnets.
#
# A boot is mostly the processes that are begun here: to execute a program with shared libraries costs a guest tens of
# milliseconds of the machine's processors, a function of busybox a tenth of that. So no program is named where busybox has it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DM_DISABLE_UDEV=1 LVM_SUPPRESS_FD_WARNINGS=1
fail() { echo "LAB: $*" >/dev/console; exec /bin/busybox poweroff -f; }
if [ "${1:-}" != stage2 ]; then /bin/busybox mount -t proc proc /proc; fi # by itself it is begun from /proc/self/exe
read -r line </proc/cmdline
for word in $line; do
  case $word in node=* | lab=* | top=* | modules=* | net=*) eval "${word%%=*}=\${word#*=}" ;; esac
done
read -r release </proc/sys/kernel/osrelease
if [ "${1:-}" != stage2 ]; then
  modules=$modules/$release
  insmod "$modules/kernel/fs/overlayfs/overlay.ko" || fail "no overlay"
  mount -t tmpfs -o size=200m,mode=755 tmpfs /mnt
  mkdir /mnt/u /mnt/w /mnt/root
  mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w,index=off,metacopy=off,xino=off overlay /mnt/root || fail "no root"
  R=/mnt/root
  mount -t proc proc $R/proc
  mount -o move /dev $R/dev
  mount -t sysfs sysfs $R/sys
  for d in run tmp; do mount -t tmpfs -o mode=1777 tmpfs $R/$d; done
  mkdir -p $R/dev/pts $R/dev/shm $R/run/lock $R/run/lvm $R/run/drbd $R/run/lab $R/var/lib/drbd $R/var/lib/holdfast $R/var/lib/kubelet $R/lab $R/disk $R/lib/modules $R/etc/drbd.d $R/etc/lvm
  mount -t devpts devpts $R/dev/pts
  mount -t tmpfs tmpfs $R/dev/shm
  [ -e "$R/lib/modules/$release" ] || ln -s "$modules" "$R/lib/modules/$release"
  mount -t hostfs -o "$lab/lab" none $R/lab
  : >$R/lab/booted # the host may send alarms from now on
  mount -t hostfs -o "$top/bin" none $R/run/lab
  mount -o remount,ro $R/run/lab
  mount -t configfs configfs $R/sys/kernel/config 2>/dev/null
  mount -t cgroup2 cgroup2 $R/sys/fs/cgroup 2>/dev/null
  cd $R && mkdir -p .old && pivot_root . .old && umount -l /.old
  exec /run/lab/init.sh stage2 </dev/null
fi
hostname "n$node"
echo "127.0.0.1 localhost n$node" >/etc/hosts
: >/etc/resolv.conf
ip link set lo up
IFS=, read -r r m a <<L
$net
L
for link in "vec0 $r" "vec1 $m" "vec2 $a"; do
  set -- $link
  ip link set "$1" up && ip addr add "10.99.$2.$node/24" dev "$1" || fail "no $1"
done
for limit in hung_task_timeout_secs=0 panic_on_oops=1 panic=1; do
  echo "${limit#*=}" >"/proc/sys/kernel/${limit%=*}"
done 2>/dev/null
# What a host keeps over a power loss: Holdfast's data, the folders of mounts, DRBD's notes and its configuration.
mount -t ext4 -o noinit_itable /dev/ubdb /disk || fail "no disk"
mkdir -p /disk/holdfast /disk/drbd /disk/kubelet
[ -d /disk/drbd.d ] || cp -a /etc/drbd.d /disk/drbd.d
mount -o bind /disk/holdfast /var/lib/holdfast
mount -o bind /disk/drbd /var/lib/drbd
mount -o bind /disk/kubelet /var/lib/kubelet
mount --make-shared /var/lib/kubelet # as the kubelet does
mount -o bind /disk/drbd.d /etc/drbd.d
if [ -e /run/lab/holdfast ]; then # of the guest's own root, for the kernel's helpers
  : >/usr/sbin/holdfast && mount -o bind /run/lab/holdfast /usr/sbin/holdfast
fi
cat >/etc/lvm/lvm.conf <<'L'
global { use_lvmpolld=0 }
activation { reserved_stack=0 reserved_memory=0 udev_sync=0 udev_rules=0 monitoring=0 verify_udev_operations=0 }
devices { use_devicesfile=0 scan=["/dev"] obtain_device_list_from_udev=0 global_filter=["a|/dev/ubd.*|","r|.*|"] }
L
mkdir -m 700 /run/holdfast
modprobe -q loop
ulimit -n 65536
for s in TERM INT HUP; do trap : $s; done
while :; do
  /run/lab/agent serve "10.99.$m.$node:9000" >>/lab/log/agent.log 2>&1 </dev/null
done
