package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestDRBD takes two replicas through everything that the log may ask of them.
func TestDRBD(t *testing.T) {
	r := newReplicas(t)
	r.birth()
	r.fenceVerdicts()
	r.takeover()
	r.inFlight()
	r.consistentAlone()
	r.verifyAndInvalidate()
	r.grow()
	r.powerLoss()
	r.tornTarget()
	r.again()
	r.growUnused()
	r.asynchronous()
	for n := 1; n <= 2; n++ {
		require.NotContains(t, r.on(n, "dmesg"), "Split-Brain")
	}
}

func (r replicas) birth() {
	for n := 1; n <= 2; n++ {
		r.done(n, "check", "configure", "configure", "create-md", "create-md")
		m := r.see(n)
		require.True(r.t, m.Metadata && m.Fresh && !m.InKernel)
		r.refused(n, "connect", "not in the kernel")
		r.done(n, "attach", "attach")
		require.Equal(r.t, inconsistent, r.see(n).Disk)
	}
	r.refused(1, "new-uuid", "not connected")
	r.refused(1, "primary", "up to date")
	r.done(1, "connect", "connect")
	r.done(2, "connect")
	r.until(1, "connected", func(m mirror) bool { return m.Connection == connected && m.PeerDisk == inconsistent })
	r.done(1, "new-uuid", "new-uuid")
	one, two := r.until(1, "born", together), r.until(2, "born", together)
	require.Equal(r.t, one.UUID, two.UUID)
	require.NotZero(r.t, one.UUID)
	require.False(r.t, one.Fresh)
	require.GreaterOrEqual(r.t, one.Size, int64(drbdSize), "the metadata take no more than Backing says")
	require.Zero(r.t, one.OutOfSync, "without a synchronisation")
	r.done(1, "primary", "primary")
	r.refused(2, "primary", "peer is primary")
	r.refused(1, "down", "primary")
	r.refused(1, "forget", "kernel has it")
	r.on(1, "mkfs.ext4 -q /dev/drbd107 && mount /dev/drbd107 /m && echo one >/m/one && sync")
	r.refused(1, "secondary", "open")
}

// fenceVerdicts: S6 and S8 with the real kernel and the real handler.
func (r replicas) fenceVerdicts() {
	r.done(2, "disconnect", "disconnect")
	two := r.see(2)
	require.Equal(r.t, []int{standAlone, upToDate}, []int{two.Connection, two.Disk}, "S8: the good side stays UpToDate")
	before := r.until(1, "frozen", frozen)
	require.Contains(r.t, r.steps(1, "suspended")[0], drbdVolume)
	r.verdict(1, "STALE")
	require.True(r.t, r.see(1).Suspended, "S6: no verdict, no exit")
	r.verdict(1, "PEER_OUTDATED")
	one := r.until(1, "resumed", func(m mirror) bool { return !m.Suspended })
	require.Equal(r.t, outdated, one.PeerDisk)
	require.NotEqual(r.t, before.UUID, one.UUID, "a primary that goes on alone has a new generation")
	r.on(1, "echo alone >/m/alone && sync")
	r.verdict(1, "")
	r.done(2, "connect")
	r.until(1, "together again", together)
	r.until(2, "together again", together)
	r.verdict(1, "REFUSED")
	require.NoError(r.t, r.l.Cut(r.t.Context(), lab.Replication, 2))
	r.until(1, "frozen by the cut", frozen)
	r.waitLog(1, "fence-peer helper broken, returned 1")
	require.True(r.t, r.see(1).Suspended, "S6: refused stays frozen")
	r.done(1, "resume", "resume")
	require.False(r.t, r.see(1).Suspended)
	require.NoError(r.t, r.l.HealAll(r.t.Context()))
	r.verdict(1, "")
	r.until(1, "healed", together)
}

func (r replicas) waitLog(n int, text string) {
	r.on(n, "for i in $(seq 600); do dmesg | grep -q '"+text+"' && exit 0; sleep .1; done; exit 1")
}

// takeover: S8 on the second guest, S9 on the first.
func (r replicas) takeover() {
	r.done(2, "disconnect")
	r.until(1, "frozen", frozen)
	r.on(1, `rm -f /run/fs /run/raw
(dd if=/dev/zero of=/m/w bs=4k count=1 conv=fsync 2>/dev/null; echo $? >/run/fs) >/dev/null 2>&1 </dev/null &
(dd if=/dev/zero of=/dev/drbd107 bs=4k seek=8000 count=1 oflag=direct 2>/dev/null; echo $? >/run/raw) >/dev/null 2>&1 </dev/null &
sleep .5; [ ! -e /run/fs ] && [ ! -e /run/raw ]`)
	r.verdict(2, "PEER_OUTDATED")
	r.done(2, "primary")
	require.Equal(r.t, "/m/alone", strings.TrimSpace(r.on(2, "mount /dev/drbd107 /m && ls /m/alone && echo two >/m/two && sync")))
	r.verdict(1, "SELF_OUTDATED")
	r.waitLog(1, "fence-peer helper returned 6")
	require.True(r.t, r.see(1).Suspended)
	r.done(1, "detach force", "detach force")
	r.until(1, "without its disk", func(m mirror) bool { return m.Disk == diskless })
	r.done(1, "resume", "resume")
	r.on(1, `for i in $(seq 600); do [ -s /run/fs ] && [ -s /run/raw ] && break; sleep .1; done; [ "$(cat /run/fs)" = 1 ] && [ "$(cat /run/raw)" = 1 ]`)
	r.on(1, "umount /m")
	r.done(1, "secondary", "down", "down")
	require.False(r.t, r.see(1).InKernel)
	r.verdict(1, "")
	r.verdict(2, "")
	r.done(1, "attach")
	require.Equal(r.t, consistent, r.see(1).Disk, "S5: the kernel does not know that it lost")
	r.done(2, "connect")
	r.refused(2, "connect discard", "primary")
	r.done(1, "connect discard", "connect discard")
	r.until(1, "resynchronised", together)
	r.on(2, "umount /m")
	r.done(2, "secondary", "secondary")
	require.Equal(r.t, r.see(1).UUID, r.see(2).UUID)
}

// inFlight: what the disk had taken when the link was cut, and only the peer had not
// confirmed, ends as done: but no sync of the filesystem does (S9).
func (r replicas) inFlight() {
	s := newScribe(r.t, r.l.Guest(1))
	r.done(1, "primary")
	r.on(1, "mount /dev/drbd107 /m")
	for range flights {
		s.start("/m/ring")
		require.NoError(r.t, r.l.Cut(r.t.Context(), lab.Replication, 2))
		r.until(1, "frozen by the cut", frozen)
		last := s.stopped()
		r.on(1, "dmesg -C")
		r.verdict(1, "SELF_OUTDATED")
		r.waitLog(1, "fence-peer helper returned 6")
		r.done(1, "detach force")
		require.Equal(r.t, "shut down", strings.TrimSpace(r.on(1, endFilesystem(drbdNumber))))
		r.done(1, "resume")
		require.Equal(r.t, last, s.failed().Number, "acknowledged by a replica that lost")
		r.on(1, "umount /m")
		r.done(1, "secondary", "down")
		r.verdict(1, "")
		require.NoError(r.t, r.l.HealAll(r.t.Context()))
		r.done(1, "attach", "connect")
		r.until(1, "together again", together)
		r.done(1, "primary")
		r.on(1, "mount /dev/drbd107 /m")
	}
	r.on(1, "umount /m")
	r.done(1, "secondary")
}

// consistentAlone: a disk attached without its peer is Consistent, promoted only when the
// handler says 4, and the kernel forgets that the peer was outdated when it comes back.
func (r replicas) consistentAlone() {
	r.done(1, "disconnect", "detach", "detach", "attach")
	require.Equal(r.t, consistent, r.see(1).Disk)
	r.verdict(1, "REFUSED")
	r.refused(1, "primary", "up to date")
	r.verdict(1, "PEER_OUTDATED")
	r.done(1, "primary")
	require.Equal(r.t, []int{upToDate, outdated}, []int{r.see(1).Disk, r.see(1).PeerDisk})
	r.done(1, "secondary", "detach", "attach")
	require.Equal(r.t, upToDate, r.see(1).Disk, "S2: it would be promoted without anybody being asked")
	r.verdict(1, "")
	r.done(1, "connect")
	r.until(1, "together", together)
	r.done(1, "disconnect", "detach", "attach")
	require.Equal(r.t, consistent, r.see(1).Disk, "the peer was seen since")
	r.done(1, "connect")
	r.until(1, "together", together)
}

func (r replicas) verifyAndInvalidate() {
	r.done(1, "verify")
	clean := r.until(1, "verified", together)
	require.Zero(r.t, clean.OutOfSync)
	r.on(2, "dd if=/dev/urandom of=/dev/mapper/below bs=4k seek=4000 count=3 oflag=direct 2>/dev/null")
	r.done(1, "verify")
	found := r.until(1, "verified", func(m mirror) bool { return together(m) && m.OutOfSync > 0 })
	require.EqualValues(r.t, 3*4096, found.OutOfSync)
	r.done(1, "invalidate", "invalidate")
	r.until(1, "resynchronised", together)
}

func (r replicas) grow() {
	grow := growBelow(drbdLarger)
	resize := fmt.Sprintf("resize %d", drbdGrown)
	r.refused(1, resize, "primary")
	r.done(1, "primary")
	r.on(1, grow)
	r.refused(1, resize, "has no room")
	r.on(2, grow)
	r.done(1, resize, resize)
	require.GreaterOrEqual(r.t, r.see(1).Size, int64(drbdGrown))
	r.until(1, "resynchronised", together)
}

func (r replicas) powerLoss() {
	r.on(1, "mount /dev/drbd107 /m && cp /usr/bin/bash /m/bash && sync")
	uuid := r.see(1).UUID
	require.NoError(r.t, r.l.Guest(1).Crash())
	require.NoError(r.t, r.l.Guest(1).Boot(r.t.Context()))
	r.prepare(1, drbdLarger)
	m := r.see(1)
	require.Equal(r.t, []any{false, true, uuid}, []any{m.InKernel, m.Metadata, m.UUID}, "the metadata say what was there")
	r.done(1, "configure", "create-md", "attach")
	require.Equal(r.t, []any{consistent, uuid}, []any{r.see(1).Disk, r.see(1).UUID})
	r.done(1, "connect")
	r.until(1, "together", together)
}

// tornTarget: a target that loses its power may have lost blocks that the source took for
// synchronised. Its bitmap does not name them, so all are marked, which loses nothing.
func (r replicas) tornTarget() {
	slow := "drbdadm disk-options --c-plan-ahead=0 --resync-rate=1M " + drbdVolume
	r.done(1, "primary")
	r.done(2, "disconnect")
	r.verdict(1, "PEER_OUTDATED")
	r.until(1, "going on alone", func(m mirror) bool { return m.Connection == connecting && !m.Suspended })
	r.on(1, "dd if=/dev/urandom of=/dev/drbd107 bs=1M count=16 oflag=direct 2>/dev/null; "+slow)
	r.on(2, slow)
	r.done(2, "connect")
	r.until(2, "being synchronised", func(m mirror) bool { return m.Disk == inconsistent })
	require.NoError(r.t, r.l.Guest(2).Crash())
	require.NoError(r.t, r.l.Guest(2).Boot(r.t.Context()))
	r.prepare(2, drbdLarger)
	r.done(2, "configure", "attach")
	torn := r.see(2)
	require.Equal(r.t, []int{standAlone, inconsistent}, []int{torn.Connection, torn.Disk})
	require.Less(r.t, torn.OutOfSync, torn.Size, "the kernel would copy only a part")
	r.done(2, "invalidate", "invalidate")
	torn = r.see(2)
	require.Equal(r.t, []int64{inconsistent, torn.Size}, []int64{int64(torn.Disk), torn.OutOfSync})
	r.on(1, "dmesg -C")
	r.done(2, "connect")
	r.until(1, "together", together)
	require.Contains(r.t, r.on(1, "dmesg"), fmt.Sprintf("will sync %d KB", torn.Size>>10))
	r.verdict(1, "")
	r.done(1, "secondary")
}

// again: scenario 8, the same minor for another volume's data, once both hosts have
// none of the old: a new replica would be synchronised from an old one that is still there.
func (r replicas) again() {
	for n := 1; n <= 2; n++ {
		r.done(n, "down", "forget", "forget")
	}
	for n := 1; n <= 2; n++ {
		require.Equal(r.t, "done []", r.steps(n, "known")[0])
		r.on(n, "! ls /var/lib/drbd/drbd-minor-107.lkbd 2>/dev/null; dd if=/dev/zero of=/dev/mapper/below bs=1M 2>/dev/null; blockdev --flushbufs /dev/mapper/below")
		r.done(n, "configure", "create-md", "attach", "connect")
	}
	r.until(2, "connected", func(m mirror) bool { return m.Connection == connected && m.Fresh })
	r.done(2, "new-uuid")
	r.until(1, "born", together)
	r.done(1, "primary", "secondary")
}

func growBelow(bytes int) string {
	return fmt.Sprintf(`dmsetup suspend below; echo "0 %d linear /dev/ubdc 0" | dmsetup load below; dmsetup resume below`, bytes/512)
}

// growUnused: while nobody is primary neither a resize nor a new connection makes the
// volume larger; the next primary does.
func (r replicas) growUnused() {
	for n := 1; n <= 2; n++ {
		r.on(n, growBelow(drbdLarger+8<<20))
	}
	resize := fmt.Sprintf("resize %d", drbdGrown+8<<20)
	r.refused(1, resize, "no replica of it is primary")
	r.done(1, "primary", resize)
	r.until(1, "larger", func(m mirror) bool { return together(m) && m.Size >= drbdGrown+8<<20 })
	r.done(1, "secondary")
}

// asynchronous: S11, protocol A does not freeze, and still nobody is promoted unasked.
func (r replicas) asynchronous() {
	r.protocol = protocolA
	for n := 1; n <= 2; n++ { // two protocols that meet stand alone
		r.done(n, "down")
	}
	for n := 1; n <= 2; n++ {
		r.done(n, "configure", "attach", "connect")
	}
	r.until(1, "connected", together)
	r.done(1, "primary")
	r.done(2, "disconnect")
	one := r.until(1, "alone", func(m mirror) bool { return m.Connection == connecting })
	require.False(r.t, one.Suspended)
	r.verdict(2, "REFUSED")
	r.refused(2, "primary", "peer is not known to be outdated")
	r.verdict(2, "")
	r.done(2, "connect")
	r.until(1, "together", together)
	r.done(1, "secondary")
}
