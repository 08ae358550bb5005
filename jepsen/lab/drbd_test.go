package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestDRBD takes two replicas through everything that the log can require of them; in the short form, through the loss of
// a peer, of a primary and of power.
func TestDRBD(t *testing.T) {
	r := newDRBDPair(t)
	r.testInitialSync()
	r.testFencePeerVerdicts()
	r.testTakeover()
	if testing.Short() {
		t.Log("left to the long form: copies that verify, invalidate and expand, that are interrupted, minors that are used again, protocol A")
		r.testInFlightWrites(1)
		r.testPowerLoss(drbdBacking)
	} else {
		r.testInFlightWrites(flights)
		r.testConsistentAlone()
		r.testVerifyAndInvalidate()
		r.testExpand()
		r.testPowerLoss(drbdLarger)
		r.testInterruptedTarget()
		r.testMinorReuse()
		r.testExpandUnused()
		r.testExpandOnly()
		r.testProtocolA()
	}
	for n := 1; n <= 2; n++ {
		require.NotContains(t, r.exec(n, "dmesg"), "Split-Brain")
	}
}

func (r drbdPair) testInitialSync() {
	for n := 1; n <= 2; n++ {
		r.mustSteps(n, "check", "configure", "configure", "create-md", "create-md")
		m := r.observe(n)
		require.True(r.t, m.HasMetadata && m.JustCreated && !m.InKernel)
		r.mustRefuse(n, "connect", "not in the kernel")
		r.mustSteps(n, "attach", "attach")
		require.Equal(r.t, inconsistent, r.observe(n).Disk)
	}
	r.mustRefuse(1, "new-uuid", "not connected")
	r.mustRefuse(1, "primary", "up to date")
	r.mustSteps(1, "connect", "connect")
	r.mustSteps(2, "connect")
	r.until(1, "connected", func(m drbdState) bool { return m.Connection == connected && m.PeerDisk == inconsistent })
	r.mustSteps(1, "new-uuid", "new-uuid")
	one, two := r.until(1, "initially synchronised", isConnectedUpToDate), r.until(2, "initially synchronised", isConnectedUpToDate)
	require.Equal(r.t, one.UUID, two.UUID)
	require.NotZero(r.t, one.UUID)
	require.False(r.t, one.JustCreated)
	require.GreaterOrEqual(r.t, one.Size, int64(drbdSize), "the metadata take no more than Backing says")
	require.Zero(r.t, one.OutOfSync, "without a synchronisation")
	r.mustSteps(1, "primary", "primary")
	r.mustRefuse(2, "primary", "peer is primary")
	r.mustRefuse(1, "down", "primary")
	r.mustRefuse(1, "forget", "kernel has it")
	r.exec(1, "mkfs.ext4 -q /dev/drbd107 && mount /dev/drbd107 /m && echo one >/m/one && sync")
	r.mustRefuse(1, "secondary", "open")
}

// testFencePeerVerdicts: S6 and S8 with the real kernel and the real handler.
func (r drbdPair) testFencePeerVerdicts() {
	r.mustSteps(2, "disconnect", "disconnect")
	two := r.observe(2)
	require.Equal(r.t, []int{standAlone, upToDate}, []int{two.Connection, two.Disk}, "S8: the good side stays UpToDate")
	before := r.until(1, "frozen", isSuspended)
	require.Contains(r.t, r.steps(1, "suspended")[0], drbdVolume)
	r.verdict(1, "STALE")
	require.True(r.t, r.observe(1).Suspended, "S6: no verdict, no exit")
	r.verdict(1, "PEER_OUTDATED")
	one := r.until(1, "resumed", func(m drbdState) bool { return !m.Suspended })
	require.Equal(r.t, outdated, one.PeerDisk)
	require.NotEqual(r.t, before.UUID, one.UUID, "a primary that goes on alone has a new generation")
	r.exec(1, "echo alone >/m/alone && sync")
	r.verdict(1, "")
	r.mustSteps(2, "connect")
	r.until(1, "together again", isConnectedUpToDate)
	r.until(2, "together again", isConnectedUpToDate)
	r.verdict(1, "REFUSED")
	require.NoError(r.t, r.l.Isolate(r.t.Context(), lab.Replication, 2))
	r.until(1, "frozen by the cut", isSuspended)
	r.waitLog(1, "fence-peer helper broken, returned 1")
	require.True(r.t, r.observe(1).Suspended, "S6: refused stays frozen")
	r.mustSteps(1, "resume", "resume")
	require.False(r.t, r.observe(1).Suspended)
	require.NoError(r.t, r.l.ReconnectAll(r.t.Context()))
	r.verdict(1, "")
	r.until(1, "healed", isConnectedUpToDate)
}

func (r drbdPair) waitLog(n int, text string) {
	r.exec(n, "for i in $(seq 600); do dmesg | grep -q '"+text+"' && exit 0; sleep .1; done; exit 1")
}

// testTakeover: the second guest is promoted as in S8, the first is torn down as in S9.
func (r drbdPair) testTakeover() {
	r.mustSteps(2, "disconnect")
	r.until(1, "frozen", isSuspended)
	r.exec(1, `rm -f /run/fs /run/raw
(dd if=/dev/zero of=/m/w bs=4k count=1 conv=fsync 2>/dev/null; echo $? >/run/fs) >/dev/null 2>&1 </dev/null &
(dd if=/dev/zero of=/dev/drbd107 bs=4k seek=8000 count=1 oflag=direct 2>/dev/null; echo $? >/run/raw) >/dev/null 2>&1 </dev/null &
sleep .5; [ ! -e /run/fs ] && [ ! -e /run/raw ]`)
	r.verdict(2, "PEER_OUTDATED")
	r.mustSteps(2, "primary")
	r.mount(2)
	require.Equal(r.t, "/m/alone", strings.TrimSpace(r.exec(2, "ls /m/alone && echo two >/m/two && sync")))
	r.verdict(1, "SELF_OUTDATED")
	r.waitLog(1, "fence-peer helper returned 6")
	require.True(r.t, r.observe(1).Suspended)
	r.mustSteps(1, "detach force", "detach force")
	r.until(1, "without its disk", func(m drbdState) bool { return m.Disk == diskless })
	r.mustSteps(1, "resume", "resume")
	r.exec(1, `for i in $(seq 600); do [ -s /run/fs ] && [ -s /run/raw ] && break; sleep .1; done; [ "$(cat /run/fs)" = 1 ] && [ "$(cat /run/raw)" = 1 ]`)
	r.exec(1, "umount /m")
	r.mustSteps(1, "secondary", "down", "down")
	require.False(r.t, r.observe(1).InKernel)
	r.verdict(1, "")
	r.verdict(2, "")
	r.mustSteps(1, "attach")
	require.Equal(r.t, consistent, r.observe(1).Disk, "S5: the kernel does not know that it lost")
	r.mustSteps(2, "connect")
	r.mustRefuse(2, "connect discard", "primary")
	r.mustSteps(1, "connect discard", "connect discard")
	r.until(1, "resynchronised", isConnectedUpToDate)
	r.exec(2, "umount /m")
	r.mustSteps(2, "secondary", "secondary")
	require.Equal(r.t, r.observe(1).UUID, r.observe(2).UUID)
}

// testInFlightWrites: writes that the disk had taken when the link was interrupted, and that only the peer had not
// confirmed, end successfully; but no sync of the filesystem does (S9).
func (r drbdPair) testInFlightWrites(times int) {
	s := newRingWriter(r.t, r.l.Guest(1))
	r.mustSteps(1, "primary")
	r.mount(1)
	for range times {
		s.start("/m/ring")
		require.NoError(r.t, r.l.Isolate(r.t.Context(), lab.Replication, 2))
		r.until(1, "frozen by the cut", isSuspended)
		last := s.awaitBlocked()
		r.exec(1, "dmesg -C")
		r.verdict(1, "SELF_OUTDATED")
		r.waitLog(1, "fence-peer helper returned 6")
		r.mustSteps(1, "detach force")
		require.Equal(r.t, "shut down", strings.TrimSpace(r.exec(1, endFilesystem(drbdNumber))))
		r.mustSteps(1, "resume")
		require.Equal(r.t, last, s.awaitFailure().Number, "acknowledged by a replica that lost")
		r.exec(1, "umount /m")
		r.mustSteps(1, "secondary", "down")
		r.verdict(1, "")
		require.NoError(r.t, r.l.ReconnectAll(r.t.Context()))
		r.mustSteps(1, "attach", "connect")
		r.until(1, "together again", isConnectedUpToDate)
		r.mustSteps(1, "primary")
		r.mount(1)
	}
	r.exec(1, "umount /m")
	r.mustSteps(1, "secondary")
}

// testConsistentAlone: a disk attached without its peer is Consistent, promoted only when the handler's exit code
// is 4, and the kernel forgets that the peer was outdated when it comes back.
func (r drbdPair) testConsistentAlone() {
	r.mustSteps(1, "disconnect", "detach", "detach", "attach")
	require.Equal(r.t, consistent, r.observe(1).Disk)
	r.verdict(1, "REFUSED")
	r.mustRefuse(1, "primary", "up to date")
	r.verdict(1, "PEER_OUTDATED")
	r.mustSteps(1, "primary")
	require.Equal(r.t, []int{upToDate, outdated}, []int{r.observe(1).Disk, r.observe(1).PeerDisk})
	r.mustSteps(1, "secondary", "down", "attach")
	require.Equal(r.t, upToDate, r.observe(1).Disk, "S2: it would be promoted without anybody being asked")
	r.verdict(1, "")
	r.mustSteps(1, "connect")
	r.until(1, "together", isConnectedUpToDate)
	r.mustSteps(1, "disconnect", "detach", "attach")
	require.Equal(r.t, consistent, r.observe(1).Disk, "the peer was seen since")
	r.mustSteps(1, "connect")
	r.until(1, "together", isConnectedUpToDate)
}

func (r drbdPair) testVerifyAndInvalidate() {
	r.mustSteps(1, "verify")
	clean := r.until(1, "verified", isConnectedUpToDate)
	require.Zero(r.t, clean.OutOfSync)
	r.exec(2, "dd if=/dev/urandom of=/dev/mapper/below bs=4k seek=4000 count=3 oflag=direct 2>/dev/null")
	r.mustSteps(1, "verify")
	found := r.until(1, "verified", func(m drbdState) bool { return isConnectedUpToDate(m) && m.OutOfSync > 0 })
	require.EqualValues(r.t, 3*4096, found.OutOfSync)
	r.mustSteps(1, "invalidate", "invalidate")
	r.until(1, "resynchronised", isConnectedUpToDate)
}

func (r drbdPair) testExpand() {
	grow := growBackingScript(drbdLarger)
	resize := fmt.Sprintf("resize %d", drbdGrown)
	r.mustRefuse(1, resize, "primary")
	r.mustSteps(1, "primary")
	r.exec(1, grow)
	r.mustRefuse(1, resize, "has no room")
	r.exec(2, grow)
	r.persist(1, resize)
	r.mustSteps(1, resize)
	require.GreaterOrEqual(r.t, r.observe(1).Size, int64(drbdGrown))
	r.until(1, "resynchronised", isConnectedUpToDate)
}

func (r drbdPair) testPowerLoss(backing int64) {
	r.mustSteps(1, "primary")
	r.mount(1)
	r.exec(1, "cp /usr/bin/bash /m/bash && sync")
	uuid := r.observe(1).UUID
	require.NoError(r.t, r.l.Guest(1).Crash())
	require.NoError(r.t, r.l.Guest(1).Boot(r.t.Context()))
	r.prepare(1, backing)
	m := r.observe(1)
	require.Equal(r.t, []any{false, true, uuid}, []any{m.InKernel, m.HasMetadata, m.UUID}, "the metadata say what was there")
	r.mustSteps(1, "configure", "create-md", "attach")
	require.Equal(r.t, []any{consistent, uuid}, []any{r.observe(1).Disk, r.observe(1).UUID})
	r.mustSteps(1, "connect")
	r.until(1, "together", isConnectedUpToDate)
}

// testInterruptedTarget: a target that loses its power may have lost blocks that the source took for
// synchronised. Its bitmap does not name them, so all are marked, which loses nothing.
func (r drbdPair) testInterruptedTarget() {
	slow := "drbdadm disk-options --c-plan-ahead=0 --resync-rate=1M " + drbdVolume
	r.mustSteps(1, "primary")
	r.mustSteps(2, "disconnect")
	r.verdict(1, "PEER_OUTDATED")
	r.until(1, "going on alone", func(m drbdState) bool { return m.Connection == connecting && !m.Suspended })
	r.exec(1, "dd if=/dev/urandom of=/dev/drbd107 bs=1M count=16 oflag=direct 2>/dev/null; "+slow)
	r.exec(2, slow)
	r.mustSteps(2, "connect")
	r.until(2, "being synchronised", func(m drbdState) bool { return m.Disk == inconsistent })
	require.NoError(r.t, r.l.Guest(2).Crash())
	require.NoError(r.t, r.l.Guest(2).Boot(r.t.Context()))
	r.prepare(2, drbdLarger)
	r.mustSteps(2, "configure", "attach")
	torn := r.observe(2)
	require.Equal(r.t, []int{standAlone, inconsistent}, []int{torn.Connection, torn.Disk})
	require.Less(r.t, torn.OutOfSync, torn.Size, "the kernel would copy only a part")
	r.mustSteps(2, "invalidate", "invalidate")
	torn = r.observe(2)
	require.Equal(r.t, []int64{inconsistent, torn.Size}, []int64{int64(torn.Disk), torn.OutOfSync})
	r.exec(1, "dmesg -C")
	r.mustSteps(2, "connect")
	r.until(1, "together", isConnectedUpToDate)
	require.Contains(r.t, r.exec(1, "dmesg"), fmt.Sprintf("will sync %d KB", torn.Size>>10))
	r.verdict(1, "")
	r.mustSteps(1, "secondary")
}

// testMinorReuse: the same minor is used for another volume's data after both hosts removed the old one: a new
// replica would be synchronised from an old one that still exists.
func (r drbdPair) testMinorReuse() {
	for n := 1; n <= 2; n++ {
		r.mustSteps(n, "down", "forget", "forget")
	}
	for n := 1; n <= 2; n++ {
		require.Equal(r.t, "done []", r.steps(n, "known")[0])
		r.exec(n, "! ls /var/lib/drbd/drbd-minor-107.lkbd 2>/dev/null; dd if=/dev/zero of=/dev/mapper/below bs=1M oflag=direct 2>/dev/null; blockdev --flushbufs /dev/mapper/below")
		r.mustSteps(n, "configure", "create-md", "attach", "connect")
	}
	r.until(2, "connected", func(m drbdState) bool { return m.Connection == connected && m.JustCreated })
	r.mustSteps(2, "new-uuid")
	r.until(1, "initially synchronised", isConnectedUpToDate)
	r.mustSteps(1, "primary", "secondary")
}

func growBackingScript(bytes int) string {
	return fmt.Sprintf(`dmsetup suspend below; echo "0 %d linear /dev/ubdc 0" | dmsetup load below; dmsetup resume below`, bytes/512)
}

// testExpandUnused: while no replica is primary neither a resize nor a new connection makes the volume larger; the
// next primary does.
func (r drbdPair) testExpandUnused() {
	for n := 1; n <= 2; n++ {
		r.exec(n, growBackingScript(drbdLarger+8<<20))
	}
	resize := fmt.Sprintf("resize %d", drbdGrown+8<<20)
	r.mustRefuse(1, resize, "no replica of it is primary")
	r.mustSteps(1, "primary")
	r.persist(1, resize)
	r.until(1, "larger", func(m drbdState) bool { return isConnectedUpToDate(m) && m.Size >= drbdGrown+8<<20 })
	r.mustSteps(1, "secondary")
}

// testExpandOnly: the only replica that is left grows alone. A peer is as large before it connects: a smaller one would
// end the primary's connection. What both have more is synchronised like what was written, to the last block, also
// after the marks were read again.
func (r drbdPair) testExpandOnly() {
	const more = 24 << 20
	grow := growBackingScript(drbdLarger + more)
	r.mustSteps(1, "primary")
	r.mustSteps(2, "disconnect")
	r.verdict(1, "PEER_OUTDATED")
	r.until(1, "going on alone", func(m drbdState) bool { return m.Connection == connecting && !m.Suspended })
	r.mustRefuse(1, fmt.Sprintf("resize %d", drbdGrown+more), "not connected")
	r.exec(1, grow)
	r.persist(1, fmt.Sprintf("resize %d alone", drbdGrown+more))
	r.until(1, "larger", func(m drbdState) bool { return m.Size >= drbdGrown+more && m.OutOfSync > 0 })
	r.exec(1, fmt.Sprintf("dd if=/dev/urandom of=/dev/drbd107 bs=1M seek=%d count=16 oflag=direct 2>/dev/null", (drbdGrown+more)>>20-16))
	r.mustSteps(1, "secondary", "down", "attach")
	r.exec(2, grow+"; drbdsetup resize 107 --assume-peer-has-space")
	r.until(2, "larger", func(m drbdState) bool { return m.Size >= drbdGrown+more })
	r.mustSteps(2, "connect")
	r.mustSteps(1, "connect")
	r.until(1, "together", isConnectedUpToDate)
	r.until(2, "together", isConnectedUpToDate)
	r.verdict(1, "")
	read := fmt.Sprintf("dd if=/dev/mapper/below bs=1M count=%d iflag=direct 2>/dev/null | md5sum", (drbdGrown+more)>>20)
	require.Equal(r.t, r.exec(1, read), r.exec(2, read), "the replicas are equal")
}

// testProtocolA: S11, protocol A does not suspend I/O, and still no replica is promoted unasked.
func (r drbdPair) testProtocolA() {
	r.protocol = protocolA
	for n := 1; n <= 2; n++ { // two replicas with different protocols end as StandAlone
		r.mustSteps(n, "down")
	}
	for n := 1; n <= 2; n++ {
		r.mustSteps(n, "configure", "attach", "connect")
	}
	r.until(1, "connected", isConnectedUpToDate)
	r.mustSteps(1, "primary")
	r.mustSteps(2, "disconnect")
	one := r.until(1, "alone", func(m drbdState) bool { return m.Connection == connecting })
	require.False(r.t, one.Suspended)
	r.verdict(2, "REFUSED")
	r.mustRefuse(2, "primary", "peer is not known to be outdated")
	r.verdict(2, "")
	r.mustSteps(2, "connect")
	r.until(1, "together", isConnectedUpToDate)
	r.mustSteps(1, "secondary")
}
