package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// diskFailing is fsmpb.DiskState's, while the kernel gives a disk up.
const diskFailing = 3

// TestDRBDsFailedDisks takes disks that the kernel gave up, under the secondary and under
// the primary, through what executor does with them (S67), and holds back the helper that
// the kernel runs for one that is given up (S9).
func TestDRBDsFailedDisks(t *testing.T) {
	r := newReplicas(t)
	r.birth()
	r.remade(2)
	r.remade(1)
	r.remadeApart()
	r.helperHeldBack()
	for n := 1; n <= 2; n++ {
		require.NotContains(t, r.on(n, "dmesg"), "Split-Brain")
	}
}

// fails lets the disk of a guest fail until the kernel gives it up, while the first one writes.
func (r replicas) fails(n int) {
	r.on(n, fmt.Sprintf(`dmsetup suspend --noflush --nolockfs below; echo "0 %d error" | dmsetup load below; dmsetup resume below`, drbdBacking/512))
	r.on(1, fmt.Sprintf("dd if=/dev/urandom of=/m/while-%d bs=64k count=8 conv=fsync 2>/dev/null", n))
	r.until(n, "without a disk", func(m mirror) bool { return m.Disk == diskless })
	r.on(n, growBelow(drbdBacking))
}

// remade: new metadata on a disk that failed have the kernel copy all of it, also under a
// primary that goes on meanwhile.
func (r replicas) remade(n int) {
	r.refused(n, "remake-md", "attached")
	r.fails(n)
	sum := r.on(1, "cat /m/* | md5sum")
	r.done(n, "remake-md", "remake-md")
	m := r.see(n)
	require.True(r.t, m.Metadata && m.Fresh && m.Disk == diskless && m.Connection == connected)
	r.wholly(func() { r.done(n, "attach") })
	require.Equal(r.t, sum, r.on(1, "echo 3 >/proc/sys/vm/drop_caches; cat /m/* | md5sum"))
}

// wholly has the two synchronised, and checks that all of the volume was copied.
func (r replicas) wholly(begin func()) {
	r.on(1, "dmesg -C")
	size := r.see(1).Size
	begin()
	r.until(1, "together", together)
	r.until(2, "together", together)
	require.Contains(r.t, r.on(1, "dmesg"), fmt.Sprintf("will sync %d KB", size>>10))
}

// remadeApart: so does a disk that is attached before it connects, after a boot.
func (r replicas) remadeApart() {
	r.fails(2)
	r.verdict(1, "PEER_OUTDATED")
	r.done(2, "down", "remake-md", "attach")
	require.Equal(r.t, []int{standAlone, inconsistent}, []int{r.see(2).Connection, r.see(2).Disk})
	r.until(1, "alone", func(m mirror) bool { return m.Connection == connecting && !m.Suspended })
	r.wholly(func() { r.done(2, "connect") })
	r.verdict(1, "")
}

// helperHeldBack: the disk that a frozen primary gives up is Failed for as long as the
// kernel's helper runs, and Diskless after it. Only then may it resume.
func (r replicas) helperHeldBack() {
	r.on(1, `own=$(cat /sys/module/drbd/parameters/usermode_helper); cat >/run/slow-helper <<END
#!/bin/sh
if [ "\$1" = pri-on-incon-degr ]; then touch /run/helper; for i in \$(seq 2000); do [ -e /run/go ] && break; sleep .1; done; fi
exec $own "\$@"
END
chmod +x /run/slow-helper; printf /run/slow-helper >/sys/module/drbd/parameters/usermode_helper`)
	r.done(2, "disconnect")
	before := r.until(1, "frozen", frozen)
	r.done(1, "detach force")
	r.on(1, "for i in $(seq 600); do [ -e /run/helper ] && exit 0; sleep .1; done; exit 1")
	m := r.see(1)
	require.Equal(r.t, diskFailing, m.Disk)
	require.True(r.t, m.Suspended)
	r.on(1, "touch /run/go")
	r.until(1, "without its disk", func(m mirror) bool { return m.Disk == diskless && m.Suspended })
	r.done(1, "resume")
	r.on(1, "umount /m")
	r.done(1, "secondary", "down", "attach")
	require.Equal(r.t, before.UUID, r.see(1).UUID, "it began no generation of its own")
	r.done(1, "connect discard")
	r.done(2, "connect")
	r.until(1, "together", together)
	require.NotEmpty(r.t, strings.TrimSpace(r.on(2, "dmesg | grep -c drbd")))
}
