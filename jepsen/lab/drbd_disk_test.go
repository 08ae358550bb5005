package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// diskFailing is fsmpb.DiskState's number while the kernel detaches a failed disk.
const diskFailing = 3

// TestDRBDsFailedDisks fails disks until the kernel detaches them, under the secondary and under the primary, and
// does what executor does with them (S67). It also delays the helper that the kernel runs for a detached disk (S9).
func TestDRBDsFailedDisks(t *testing.T) {
	r := newDRBDPair(t)
	r.testInitialSync()
	r.testNewMetadata(2)
	r.testNewMetadata(1)
	r.testNewMetadataUnconnected()
	r.testHelperDelayed()
	for n := 1; n <= 2; n++ {
		require.NotContains(t, r.exec(n, "dmesg"), "Split-Brain")
	}
}

// failDisk makes the disk of a guest fail until the kernel detaches it, while the first guest writes.
func (r drbdPair) failDisk(n int) {
	r.exec(n, fmt.Sprintf(`dmsetup suspend --noflush --nolockfs below; echo "0 %d error" | dmsetup load below; dmsetup resume below`, drbdBacking/512))
	r.exec(1, fmt.Sprintf("dd if=/dev/urandom of=/m/while-%d bs=64k count=8 conv=fsync 2>/dev/null", n))
	r.until(n, "without a disk", func(m drbdState) bool { return m.Disk == diskless })
	r.exec(n, growBackingScript(drbdBacking))
}

// testNewMetadata: after new metadata on a failed disk the kernel copies all of it, also under a primary that
// continues meanwhile.
func (r drbdPair) testNewMetadata(n int) {
	r.mustRefuse(n, "remake-md", "attached")
	r.failDisk(n)
	sum := r.exec(1, "cat /m/* | md5sum")
	r.mustSteps(n, "remake-md", "remake-md")
	m := r.observe(n)
	require.True(r.t, m.HasMetadata && m.JustCreated && m.Disk == diskless && m.Connection == connected)
	r.requireFullSync(func() { r.mustSteps(n, "attach") })
	require.Equal(r.t, sum, r.exec(1, "sync; echo 3 >/proc/sys/vm/drop_caches; cat /m/* | md5sum"))
}

// requireFullSync synchronises the two, and checks that all of the volume was copied.
func (r drbdPair) requireFullSync(begin func()) {
	r.exec(1, "dmesg -C")
	size := r.observe(1).Size
	begin()
	r.until(1, "together", isConnectedUpToDate)
	r.until(2, "together", isConnectedUpToDate)
	require.Contains(r.t, r.exec(1, "dmesg"), fmt.Sprintf("will sync %d KB", size>>10))
}

// testNewMetadataUnconnected: the same for a disk that is attached before it connects, after a boot.
func (r drbdPair) testNewMetadataUnconnected() {
	r.failDisk(2)
	r.verdict(1, "PEER_OUTDATED")
	r.mustSteps(2, "down", "remake-md", "attach")
	require.Equal(r.t, []int{standAlone, inconsistent}, []int{r.observe(2).Connection, r.observe(2).Disk})
	r.until(1, "alone", func(m drbdState) bool { return m.Connection == connecting && !m.Suspended })
	r.requireFullSync(func() { r.mustSteps(2, "connect") })
	r.verdict(1, "")
}

// testHelperDelayed: the disk that a suspended primary detaches is Failed while the kernel's helper runs, and Diskless
// after it. Only then may I/O resume.
func (r drbdPair) testHelperDelayed() {
	r.exec(1, `own=$(cat /sys/module/drbd/parameters/usermode_helper); cat >/run/slow-helper <<END
#!/bin/sh
if [ "\$1" = pri-on-incon-degr ]; then touch /run/helper; for i in \$(seq 2000); do [ -e /run/go ] && break; sleep .1; done; fi
exec $own "\$@"
END
chmod +x /run/slow-helper; printf /run/slow-helper >/sys/module/drbd/parameters/usermode_helper`)
	r.mustSteps(2, "disconnect")
	before := r.until(1, "frozen", isSuspended)
	r.mustSteps(1, "detach force")
	r.exec(1, "for i in $(seq 600); do [ -e /run/helper ] && exit 0; sleep .1; done; exit 1")
	m := r.observe(1)
	require.Equal(r.t, diskFailing, m.Disk)
	require.True(r.t, m.Suspended)
	r.exec(1, "touch /run/go")
	r.until(1, "without its disk", func(m drbdState) bool { return m.Disk == diskless && m.Suspended })
	r.mustSteps(1, "resume")
	r.exec(1, "umount /m")
	r.mustSteps(1, "secondary", "down", "attach")
	require.Equal(r.t, before.UUID, r.observe(1).UUID, "it began no generation of its own")
	r.mustSteps(1, "connect discard")
	r.mustSteps(2, "connect")
	r.until(1, "together", isConnectedUpToDate)
	require.NotEmpty(r.t, strings.TrimSpace(r.exec(2, "dmesg | grep -c drbd")))
}
