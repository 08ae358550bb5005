package lab_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestPlatform proves what the backends rely on: thin pools and DRBD in two guests, with the tools alone and nothing
// of Holdfast. The long form has it: all that it shows is used by every scenario, and it says where to look when those fail.
func TestPlatform(t *testing.T) {
	if !longForm {
		t.Skip("the long form has it (HOLDFAST_LONG=1)")
	}
	t.Parallel()
	l := lab.New(t, lab.Config{Guests: 2, NoHoldfast: true})
	begun := time.Now()
	l.MustBoot(t)
	for _, g := range l.Guests() {
		require.NoError(t, g.Put(t.Context(), "/etc/drbd.d/r0.res", []byte(resource(l)), 0o600))
		g.MustExec(t, `set -e
pvcreate -qq /dev/ubdc && vgcreate -qq vg /dev/ubdc
lvcreate -qq -L 200M --poolmetadatasize 8M -T vg/pool && lvcreate -qq -V 64M -T vg/pool -n v1

modprobe drbd && drbdadm create-md --force r0 </dev/null && drbdadm up r0`)
	}
	t.Logf("set up after %s", time.Since(begun))
	one, two := l.Guest(1), l.Guest(2)
	awaitDrbd(t, one, "cs:Connected .* ds:Inconsistent/Inconsistent")
	one.MustExec(t, "drbdadm -- --clear-bitmap new-current-uuid r0")
	awaitDrbd(t, two, "cs:Connected .* ds:UpToDate/UpToDate")
	sum := one.MustExec(t, `set -e; drbdadm primary r0; mkfs.ext4 -q /dev/drbd10; mount /dev/drbd10 /mnt
dd if=/dev/urandom of=/mnt/a bs=1M count=4 conv=fsync 2>/dev/null; sync -f /mnt; md5sum </mnt/a`)
	require.NoError(t, one.Crash())
	awaitDrbd(t, two, "cs:WFConnection")
	require.Equal(t, sum, two.MustExec(t, "drbdadm primary r0 && mount /dev/drbd10 /mnt && md5sum </mnt/a"))
	require.NoError(t, one.Boot(t.Context()))
	one.MustExec(t, "vgchange -qq -ay vg && drbdadm up r0")
	awaitDrbd(t, one, "cs:Connected .* ds:UpToDate/UpToDate")
	require.NoError(t, l.Isolate(t.Context(), lab.Replication, 1))
	awaitDrbd(t, two, "cs:WFConnection")
	require.NoError(t, l.Reconnect(t.Context(), lab.Replication, 1))
	awaitDrbd(t, two, "cs:Connected .* ds:UpToDate/UpToDate")
	// Not by LVM's own tools: to look for volumes they open every block device of the host, and a loop device that
	// is open elsewhere cannot be taken down by the tests that run beside these.
	require.NoFileExists(t, "/dev/mapper/vg-v1", "the host does not see what is in the guests")
}

func resource(l *lab.Lab) string {
	return fmt.Sprintf(`resource r0 {
 net { protocol C; ping-int 2; ping-timeout 5; connect-int 2; timeout 19; } disk { c-plan-ahead 0; resync-rate 100M; }
 device /dev/drbd10 minor 10; disk /dev/vg/v1; meta-disk internal;
 on n1 { address %s:7000; } on n2 { address %s:7000; } }
`, l.IP(lab.Replication, 1), l.IP(lab.Replication, 2))
}

// awaitDrbd waits until the line of the device in /proc/drbd is like a pattern.
func awaitDrbd(t *testing.T, g *lab.Guest, pattern string) {
	t.Helper()
	want, begun := regexp.MustCompile(pattern), time.Now()
	lab.Await(t, 4*time.Minute, g.Name()+": "+pattern, func() (bool, string) {
		text, err := g.Get(t.Context(), "/proc/drbd") // a program started in the guest costs many times as much
		require.NoError(t, err)
		line := stateLine.FindString(string(text)) // there is one device
		return want.MatchString(line), line
	})
	t.Logf("%s: %s after %s", g.Name(), pattern, time.Since(begun))
}
