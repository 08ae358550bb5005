package backendtest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	diskUpToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	diskInconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	diskDiskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	peerOutdated     = fsmpb.Verdict_VERDICT_PEER_OUTDATED
	drbdMinor        = 7
)

// drbdPair is a replicated volume in a world of three hosts, of which the first two have it.
type drbdPair struct {
	t  *testing.T
	w  *backendtest.World
	h  []*backendtest.Host
	p  []*backendtest.Process
	id fsm.VolumeID
}

func newDRBDPair(t *testing.T, gate backendtest.Gate) *drbdPair {
	d := &drbdPair{t: t, w: backendtest.NewWorld(gate), id: backendtest.NewID()}
	for _, node := range []fsm.NodeID{"n1", "n2", "n3"} {
		h := d.w.AddHost(node, backendtest.PoolConfig{ID: fsm.PoolID("hp-" + node)})
		d.h, d.p = append(d.h, h), append(d.p, h.StartProcess())
	}
	d.bringUp(0, 1)
	d.bringUp(1, 0)
	d.w.Settle()
	require.NoError(t, d.drbd(0).NewUUID(t.Context(), d.id))
	return d
}

func (d *drbdPair) drbd(i int) executor.Replicator { return d.p[i].Replicator() }

// bringUp makes a new replica on a host, and has it wait for its peer.
func (d *drbdPair) bringUp(i, peer int) {
	d.t.Helper()
	require.NoError(d.t, d.p[i].Pools()[0].Create(d.t.Context(), d.id, d.drbd(i).BackingSize(64*mib)))
	d.activate(i, peer)
	require.NoError(d.t, d.drbd(i).CreateMetadata(d.t.Context(), d.id))
	d.attach(i)
}

func (d *drbdPair) activate(i, peer int) {
	d.t.Helper()
	dev, err := d.p[i].Pools()[0].Activate(d.t.Context(), d.id, false)
	require.NoError(d.t, err)
	require.NoError(d.t, d.drbd(i).Configure(d.t.Context(), executor.ResourceConfig{
		Volume: d.id, Protocol: fsmpb.Protocol_PROTOCOL_C, Minor: drbdMinor, BackingPath: dev.StablePath, Node: d.h[i].Node(), PeerNode: d.h[peer].Node(),
	}))
}

func (d *drbdPair) attach(i int) {
	d.t.Helper()
	require.NoError(d.t, d.drbd(i).Attach(d.t.Context(), d.id))
	require.NoError(d.t, d.drbd(i).Connect(d.t.Context(), d.id, false))
}

func (d *drbdPair) status(i int) executor.ResourceStatus {
	d.t.Helper()
	s, err := d.drbd(i).Observe(d.t.Context(), d.id, drbdMinor, "backing")
	require.NoError(d.t, err)
	return s
}

// use makes a host primary, with a filesystem that is mounted.
func (d *drbdPair) use(i int, format bool) *backendtest.Writer {
	d.t.Helper()
	require.NoError(d.t, d.drbd(i).SetPrimary(d.t.Context(), d.id, false))
	s := d.status(i)
	dev := executor.Device{Exists: true, Path: s.Path, Number: s.Number, Size: s.Size}
	if format {
		require.NoError(d.t, d.p[i].Mounter().Format(d.t.Context(), dev.Path, ext4, false))
	}
	mountAndBind(d.t, d.p[i], dev)
	return openWriter(d.t, d.h[i], uint64(i+1))
}

// reboot loses the power of a host, and starts all of it again.
func (d *drbdPair) reboot(i, peer int) {
	d.t.Helper()
	d.h[i].PowerLoss(nil)
	d.h[i].Boot()
	d.p[i] = d.h[i].StartProcess()
	d.activate(i, peer)
	d.attach(i)
}

func (d *drbdPair) cut(yes bool) {
	for _, pair := range [][2]fsm.NodeID{{"n1", "n2"}, {"n2", "n1"}} {
		if yes {
			d.w.Links().Cut(pair[0], pair[1])
		} else {
			d.w.Links().Mend(pair[0], pair[1])
		}
	}
}

func (d *drbdPair) requireKept(hosts ...int) {
	d.t.Helper()
	for _, i := range hosts {
		require.NoError(d.t, d.w.Ledger().CheckKept(d.id, d.h[i].DiskStamps(d.id)), "on %s", d.h[i].Node())
	}
	require.Empty(d.t, d.w.Violations())
}

func TestAReplicatedWriteIsOnBothDisks(t *testing.T) {
	d := newDRBDPair(t, nil)
	w := d.use(0, true)
	s := write(t, w)
	require.NoError(t, w.Sync())
	for i := range 2 {
		require.Equal(t, []backendtest.Stamp{s}, d.h[i].DiskStamps(d.id))
		require.Equal(t, diskUpToDate, d.status(i).Disk)
	}
	require.Equal(t, d.h[0].Pool("hp-n1").Content(d.id), d.h[1].Pool("hp-n2").Content(d.id))
	require.Equal(t, fsm.Busy, reasonOf(d.drbd(0).SetSecondary(t.Context(), d.id)), "it is mounted")
	require.Error(t, d.drbd(1).SetPrimary(t.Context(), d.id, false), "its peer is primary")
	require.Equal(t, fsm.Busy, reasonOf(d.p[1].Pools()[0].Deactivate(t.Context(), d.id)), "its disk is attached")
}

// A cut in one direction is one of the connection.
func TestALossOfThePeerSuspendsIOUntilTheHandlerAnswers(t *testing.T) {
	d := newDRBDPair(t, nil)
	w := d.use(0, true)
	d.w.Links().Cut("n2", "n1")
	lost := write(t, w)
	require.ErrorIs(t, w.Sync(), backendtest.ErrWaits)
	calls := d.w.Handlers()
	require.Len(t, calls, 1)
	require.Equal(t, fsm.NodeID("n1"), calls[0].Host)
	calls[0].Start()
	require.True(t, calls[0].Started())
	calls[0].Answer(peerOutdated)
	require.Empty(t, d.w.Handlers())
	require.NoError(t, w.Sync())
	require.Equal(t, []backendtest.Stamp{lost}, d.h[0].DiskStamps(d.id))
	require.Empty(t, d.h[1].DiskStamps(d.id))
	d.w.Links().Mend("n2", "n1")
	d.w.Settle()
	require.Equal(t, diskUpToDate, d.status(1).Disk)
	d.requireKept(0, 1)
}

func TestAHandlerThatDiesLeavesIOSuspended(t *testing.T) {
	d := newDRBDPair(t, nil)
	w := d.use(0, true)
	d.cut(true)
	write(t, w)
	d.w.Handlers()[0].Die()
	require.ErrorIs(t, w.Sync(), backendtest.ErrWaits)
	require.True(t, d.status(0).Suspended)
	require.NoError(t, d.drbd(0).ResumeIO(t.Context(), d.id))
	require.NoError(t, w.Sync())
}

func TestS8_ATakeoverAsksTheHandlerAndKeepsWhatWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDRBDPair(t, nil)
		w := d.use(0, true)
		write(t, w)
		require.NoError(t, w.Sync())
		d.h[0].PowerLoss(nil)
		promoted := make(chan error, 1)
		go func() { promoted <- d.drbd(1).SetPrimary(context.Background(), d.id, false) }()
		synctest.Wait()
		calls := d.w.Handlers()
		require.Len(t, calls, 1)
		require.True(t, calls[0].Promoting)
		calls[0].Answer(peerOutdated)
		require.NoError(t, <-promoted)
		w = d.use(1, false)
		write(t, w)
		require.NoError(t, w.Sync())
		d.requireKept(1)
		d.h[0].Boot()
		d.p[0] = d.h[0].StartProcess()
		d.activate(0, 1)
		d.attach(0)
		d.w.Settle()
		require.Equal(t, diskUpToDate, d.status(0).Disk)
		d.requireKept(0, 1)
	})
}

// What a target received and had not on stable storage is lost with its power, and is copied again
// only if everything is.
func TestADiskThatFailsIsDetachedAndCopiedAnew(t *testing.T) {
	d := newDRBDPair(t, nil)
	w := d.use(0, true)
	write(t, w)
	require.NoError(t, w.Sync())
	d.h[1].Pool("hp-n2").SetWriteErrors(true)
	write(t, w)
	require.NoError(t, w.Sync(), "its own disk takes it")
	requireEvent(t, d.w, backendtest.EventDetachEnds).Do()
	require.Equal(t, diskDiskless, d.status(1).Disk)
	d.h[1].Pool("hp-n2").SetWriteErrors(false)
	require.NoError(t, d.drbd(1).RemakeMetadata(t.Context(), d.id))
	require.NoError(t, d.drbd(1).Attach(t.Context(), d.id))
	require.Equal(t, diskInconsistent, d.status(1).Disk)
	requireEvent(t, d.w, backendtest.EventSync).Do()
	d.w.Settle()
	require.Equal(t, diskUpToDate, d.status(1).Disk)
	d.requireKept(0, 1)
	require.Equal(t, d.h[0].Pool("hp-n1").Content(d.id), d.h[1].Pool("hp-n2").Content(d.id))
}

// A host that is replaced leaves its replica behind; the new peer gets a copy of everything.
func TestANewPeerGetsACopyOfEverything(t *testing.T) {
	d := newDRBDPair(t, nil)
	w := d.use(0, true)
	write(t, w)
	require.NoError(t, w.Sync())
	d.h[1].PowerLoss(nil)
	d.w.Handlers()[0].Answer(peerOutdated)
	write(t, w)
	require.NoError(t, w.Sync())
	d.bringUp(2, 0)
	require.NoError(t, d.drbd(0).Disconnect(t.Context(), d.id))
	for _, c := range d.w.Handlers() {
		c.Answer(peerOutdated)
	}
	d.activate(0, 2)
	require.NoError(t, d.drbd(0).Connect(t.Context(), d.id, false))
	d.w.Settle()
	require.Equal(t, diskUpToDate, d.status(2).Disk)
	d.requireKept(0, 2)
	d.h[1].Boot()
	d.p[1] = d.h[1].StartProcess()
	d.activate(1, 0)
	d.attach(1)
	d.w.Settle()
	require.Equal(t, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING, d.status(1).Connection, "nobody names it as a peer")
	require.Error(t, d.w.Ledger().CheckKept(d.id, d.h[1].DiskStamps(d.id)))
	d.requireKept(0, 2)
}

// The only replica grows alone, to the size that is asked for and not to all that its disk can hold; one
// that has a peer does not.
func TestTheOnlyReplicaGrowsAlone(t *testing.T) {
	d := newDRBDPair(t, nil)
	d.use(0, true)
	grow := func(size int64) {
		require.NoError(t, d.p[0].Pools()[0].(executor.SnapshotBackend).Expand(t.Context(), d.id, d.drbd(0).BackingSize(size)))
	}
	grow(128 * mib)
	require.Error(t, d.drbd(0).Resize(t.Context(), d.id, 96*mib, false), "its peer has no room")
	require.Error(t, d.drbd(0).Resize(t.Context(), d.id, 96*mib, true), "it has a peer")
	require.NoError(t, d.drbd(1).Disconnect(t.Context(), d.id))
	d.w.Handlers()[0].Answer(peerOutdated)
	require.Error(t, d.drbd(0).Resize(t.Context(), d.id, 96*mib, false))
	require.NoError(t, d.drbd(0).Resize(t.Context(), d.id, 96*mib, true))
	require.EqualValues(t, 96*mib, d.status(0).Size)
	require.Error(t, d.drbd(0).Resize(t.Context(), d.id, 256*mib, true))
	require.EqualValues(t, 96*mib, d.status(0).Size)
}

// The kernel goes on connecting to a peer that the file does not name any more, until it is adjusted.
func TestAdjustEndsAConnectionToAnotherPeer(t *testing.T) {
	d := newDRBDPair(t, nil)
	require.NoError(t, d.drbd(0).Adjust(t.Context(), d.id))
	require.Equal(t, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, d.status(0).Connection)
	d.h[1].PowerLoss(nil)
	d.activate(0, 2)
	require.Equal(t, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING, d.status(0).Connection)
	require.NoError(t, d.drbd(0).Adjust(t.Context(), d.id))
	require.Equal(t, fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE, d.status(0).Connection)
}

// DRBD compares nothing before the first generation. What only the seed has is copied by an
// invalidation of its peer; a peer that has something else is a violation.
func TestAFirstGenerationAboveDisksThatDifferIsAViolation(t *testing.T) {
	const copied = "copied from a source"
	for name, test := range map[string]struct {
		content [2]string
		allowed bool
	}{
		"the same": {[2]string{copied, copied}, true}, "the seed's only": {[2]string{copied, ""}, true},
		"the peer's only": {[2]string{"", copied}, false}, "two": {[2]string{copied, "another"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDiskPair(t, test.content)
			require.NoError(t, d.drbd(0).NewUUID(t.Context(), d.id))
			require.Equal(t, test.allowed, len(d.w.Violations()) == 0)
			if !test.allowed {
				return
			}
			require.NoError(t, d.drbd(1).Invalidate(t.Context(), d.id))
			d.w.Settle()
			require.Equal(t, d.h[0].Pool("hp-n1").Content(d.id), d.h[1].Pool("hp-n2").Content(d.id))
			require.Empty(t, d.w.Violations())
		})
	}
}

// newDiskPair attaches two replicas whose disks hold something before their first generation.
func newDiskPair(t *testing.T, content [2]string) *drbdPair {
	d := &drbdPair{t: t, w: backendtest.NewWorld(nil), id: backendtest.NewID()}
	for i, node := range []fsm.NodeID{"n1", "n2"} {
		h := d.w.AddHost(node, backendtest.PoolConfig{ID: fsm.PoolID("hp-" + node)})
		d.h, d.p = append(d.h, h), append(d.p, h.StartProcess())
		require.NoError(t, d.p[i].Pools()[0].Create(t.Context(), d.id, 64*mib))
		h.Pool(fsm.PoolID("hp-"+node)).Write(d.id, 0, []byte(content[i]))
	}
	for i := range 2 {
		d.activate(i, 1-i)
		require.NoError(t, d.drbd(i).CreateMetadata(t.Context(), d.id))
		d.attach(i)
	}
	d.w.Settle()
	return d
}

func TestWatchersAreToldOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDRBDPair(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended, told := make(chan error, 1), 0
		go func() { ended <- d.drbd(1).Watch(ctx, func(id fsm.VolumeID) { require.Equal(t, d.id, id); told++ }) }()
		synctest.Wait()
		require.Equal(t, 1, told, "a stream begins with all resources")
		w := d.use(0, true)
		synctest.Wait()
		told = 0
		write(t, w)
		require.NoError(t, w.Sync())
		synctest.Wait()
		require.Zero(t, told, "a write is no event")
		d.cut(true)
		synctest.Wait()
		require.Equal(t, 1, told)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
