package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// disconnectedPrimary is what a primary observes that lost its peer.
func disconnectedPrimary(uuid uint64) ReplicaObservation {
	return ReplicaObservation{Primary: true, Disk: upToDate, Connection: connecting, UUID: uuid, Suspended: true}
}

// S6, S8: which host may continue without its peer.
func TestS6_EachHostGetsItsOwnVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		asker    string
		observed ReplicaObservation
		before   func(*world)
		change   func(*fsmpb.Outdate)
		want     fsmpb.Verdict
	}{
		"the primary that lost its peer":                      {asker: "n1", observed: disconnectedPrimary(7), want: peerOutdated},
		"the peer of the primary":                             {asker: "n2", observed: disconnectedObservation(7, connecting), want: refused},
		"a primary without a disk":                            {asker: "n1", observed: ReplicaObservation{Primary: true, Disk: diskless, Connection: connecting}, want: refused},
		"a primary whose disk is half synchronised":           {asker: "n1", observed: ReplicaObservation{Primary: true, Disk: inconsistent, UUID: 7}, want: refused},
		"a primary whose disk its kernel does not call whole": {asker: "n1", observed: ReplicaObservation{Primary: true, Disk: consistent, UUID: 7}, want: refused},
		"a question of an earlier generation":                 {asker: "n1", observed: disconnectedPrimary(7), change: func(c *fsmpb.Outdate) { c.Generation-- }, want: staleVerdict},
		"an earlier attachment":                               {asker: "n1", observed: disconnectedPrimary(7), change: func(c *fsmpb.Outdate) { c.Seen.Attach = 0 }, want: staleVerdict},
		"a revoked primary":                                   {asker: "n1", observed: disconnectedPrimary(7), before: publicationRevoked1, want: refused},
		"a loser":                                             {asker: "n1", observed: disconnectedPrimary(7), before: func(w *world) { publicationRevoked1(w); takeover1(w) }, want: selfOutdated},
		"the winner of a takeover, being promoted":            {asker: "n2", observed: disconnectedObservation(7, standAlone), before: func(w *world) { publicationRevoked1(w); takeover1(w) }, want: peerOutdated},
		"again, when the peer is outdated already":            {asker: "n1", observed: disconnectedPrimary(7), before: ask1, want: peerOutdated},
		"the peer that was outdated":                          {asker: "n2", observed: disconnectedObservation(7, connecting), before: ask1, want: selfOutdated},
		"a primary that was attached anew and synchronised":   {asker: "n1", observed: disconnectedPrimary(7), before: func(w *world) { w.attach(1, "n1", 2) }, want: peerOutdated},
		"a primary whose disk failed in this attachment":      {asker: "n1", observed: disconnectedPrimary(7), before: diskFailed1, want: refused},
		"the primary, rebooted, without a grant of this boot": {asker: "n1", observed: disconnectedObservation(7, connecting), before: func(w *world) { w.reboot("n1"); w.attach(1, "n1", 2) }, want: refused},
		"S1: a primary in adoption mode stays as it is":       {asker: "n1", observed: disconnectedPrimary(7), before: restored1, want: refused},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			if tc.before != nil {
				tc.before(w)
			}
			c := w.outdate(1, tc.asker, tc.observed)
			if tc.change != nil {
				tc.change(c)
			}
			before := w.contents()
			out := w.ok("node/"+tc.asker, c)
			require.Equal(t, tc.want, out.GetVerdict())
			if tc.want != peerOutdated {
				require.Equal(t, before, w.contents(), "only a yes changes anything")
				require.Equal(t, w.volume(1).Replication.Generation, out.GetGeneration())
				return
			}
			require.Equal(t, out.GetIndex(), out.GetGeneration())
			require.Equal(t, out.GetIndex(), w.volume(1).Replication.Generation)
			require.True(t, w.volume(1).PeerReplica(HostID("host-"+tc.asker)).Outdated)
		})
	}
}

func TestS6_AnOutdateRequestIsForItsOwnHost(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	c := w.outdate(1, "n1", disconnectedPrimary(7))
	w.rejected(Forbidden, "node/n2", c)
	w.rejected(Forbidden, controller, c)
	c.BootId = "boot-0"
	w.rejected(StaleEpoch, "node/n1", c)
	w.ready(2, changed(2, func(c *fsmpb.CreateVolume) { c.Requisite = terms("n1") }))
	c.BootId, c.VolumeId = "boot-1", volumeID(2)
	w.rejected(Precondition, "node/n1", c)
}

// S7: every PEER_OUTDATED is a new entry and a new generation; the retry of a request
// gets its first answer, also from a member that joined by a dump.
func TestS7_ARetryGetsTheFirstVerdictAndANewDisconnectANewOne(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	question := envelope("node/n1", "one question", w.index, w.outdate(1, "n1", disconnectedPrimary(7)))
	first := w.applyEnvelope(question)
	require.Equal(t, peerOutdated, first.GetVerdict())
	before := w.contents()
	require.True(t, proto.Equal(first, w.applyEnvelope(question)))
	joined := restored(t, w.s)
	require.True(t, proto.Equal(first, joined.Apply(w.index+1, question).Outcome))
	require.Equal(t, before, w.contents())
	second := w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7)))
	require.Equal(t, peerOutdated, second.GetVerdict())
	require.Greater(t, second.GetGeneration(), first.GetGeneration())
}

// S7, scenario 2d: the connection flaps, and an UpToDate that was observed before a new
// loss arrives late.
func TestS7_ADelayedObservationDoesNotCountAfterANewDisconnect(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	ask1(w)
	observed := inSyncObservation(8)
	observed.Primary = true
	n1, n2 := w.currentObservation(1, "n1", observed), w.currentObservation(1, "n2", inSyncObservation(8)) // they reconnected, under the generation of the answer
	ask1(w)                                                                                                // and lost each other again
	w.reportObservation(1, "n1", n1)
	w.reportObservation(1, "n2", n2)
	require.True(t, w.replicaSync(1, "n2").Outdated)
	require.False(t, w.replicaSync(1, "n2").UpToDate)
	w.setUnreachable("n1", true)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	require.False(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))) && !w.replicaSync(1, "n2").Outdated)
	w.rejected(Precondition, controller, publish(1, "n2"))
}

// A request that was made before the peer reconnected is STALE after it.
func TestS7_AnOldOutdateRequestIsStaleOnceThePeerIsBack(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	ask1(w)
	question := w.outdate(1, "n1", disconnectedPrimary(7))
	observed := inSyncObservation(8)
	observed.Primary = true
	w.reportCurrent(1, "n1", observed)
	w.reportCurrent(1, "n2", inSyncObservation(8))
	require.True(t, w.replicaSync(1, "n2").UpToDate)
	require.Equal(t, staleVerdict, w.ok("node/n1", question).GetVerdict())
	require.True(t, w.replicaSync(1, "n2").UpToDate)
}

func restored1(w *world) {
	w.ok(admin, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
}

func diskFailed1(w *world) {
	w.reportCurrent(1, "n1", ReplicaObservation{Primary: true, Disk: diskless, PeerDisk: upToDate, Connection: connected})
}

func ask1(w *world) {
	require.Equal(w.t, peerOutdated, w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7))).GetVerdict())
}
