package fsm

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// twins are two members of one log. One writes a sweep at once, the other as little of it
// as it can with each entry.
type twins struct {
	*player
	slow  *world
	hosts *hostViews // by the slow one
}

func newTwins(t testing.TB, d dice) *twins {
	p := newPlayer(t, d)
	p.w = worldInUse(t, fsmpb.Protocol(1+d.roll(2)))
	p.w.s.sweepBudget = sweepBudget{reads: 1 << 30, writes: 1 << 30}
	p.at, p.created = p.w.index, 12
	x := &twins{player: p, slow: &world{t: t, s: restored(t, p.w.s)}}
	x.slow.s.sweepBudget = sweepBudget{reads: 1, writes: 1}
	x.hosts = newHostViews(x.slow.s)
	return x
}

// worldInUse has replicated volumes 1 to 4, of which two have a pending teardown on n1
// and one is to be removed from n2, local ones 5 to 10 that are staged, created or being
// created, and snapshots of some.
func worldInUse(t testing.TB, protocol fsmpb.Protocol) *world {
	w := newReplicated(t, protocol)
	for n := 2; n <= 4; n++ {
		w.readyReplicated(n, createReplicated(n, protocol))
	}
	w.ok("controller/c1", &fsmpb.RemoveReplica{VolumeId: volumeID(3), NodeId: "n2", HostId: "host-n2"})
	named := func(n int, name string) *fsmpb.CreateVolume {
		c := create(n)
		c.Name = name
		return c
	}
	for n := 5; n <= 8; n++ {
		w.ready(n, named(n, fmt.Sprint("kept-", n)))
		w.staged(n, string(w.volume(n).Replicas[0].Node), 1)
		w.ok("controller/c1", createSnapshot(n, n))
	}
	for n, name := range []string{"pvc-0", "pvc-5", "pvc-6", "pvc-7"} { // others will want these
		w.ok("controller/c1", named(9+n, name))
	}
	for n := 1; n <= 2; n++ {
		w.ok("controller/c1", publish(n, "n1"))
	}
	w.ok("controller/c1", &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"})
	for n := 1; n <= 2; n++ {
		if protocol == protocolC {
			w.ok("controller/c1", &fsmpb.UnpublishVolume{VolumeId: volumeID(n)})
		}
	}
	return w
}

// step has both apply one entry: what they answer, and hold for whoever reads, is equal.
func (x *twins) step(e entry) {
	x.w.t.Helper()
	one, other := x.w.s.Apply(e.index, e.cmd), x.slow.s.Apply(e.index, e.cmd)
	require.True(x.w.t, proto.Equal(one.Outcome, other.Outcome), "at once: %v\nby batches: %v\n%v", one.Outcome, other.Outcome, e.cmd)
	require.NoError(x.w.t, x.slow.s.Check(), "after %v", e.cmd)
	x.hosts.applyChanges(x.slow.s, e, other.Changes)
	x.hosts.check(x.w.t, x.slow.s, e)
	require.Empty(x.w.t, x.w.s.cluster.Sweeps)
	require.Equal(x.w.t, withoutMinors(x.w), withoutMinors(x.slow), "after %v", e.cmd)
}

// continueSweep proposes the next batch as the leader does.
func (x *twins) continueSweep() {
	x.at++
	c := &fsmpb.ContinueSweep{}
	if left := x.slow.s.Cluster().Sweeps; len(left) > 0 {
		c.Index = left[0].Epoch.Index
	}
	x.step(entry{x.at, envelope("controller/c1", fmt.Sprint("sweep ", x.at), x.at-1, c)})
}

func (x *twins) finish() {
	for len(x.slow.s.cluster.Sweeps) > 0 {
		x.continueSweep()
	}
}

// withoutMinors are the contents as they are read, without the numbers that a volume of
// which nothing is left keeps until that is written.
func withoutMinors(w *world) (all []any) {
	for v := range w.s.Volumes("") {
		c := *v
		if c.Replication != nil {
			c = v.withReplication()
			c.Replication.Minor, c.Replication.Port = 0, 0
		}
		all = append(all, c)
	}
	for n := range w.s.Nodes() {
		all = append(all, *n)
		for v := range w.s.VolumesOn(n.ID) {
			all = append(all, v.ID)
		}
		for k := range w.s.SnapshotsOn(n.ID) {
			all = append(all, k.ID)
		}
	}
	for n := range w.s.Snapshots("") {
		all = append(all, *n)
	}
	for g := range w.s.GroupSnapshots("") {
		all = append(all, *g)
	}
	for v := range w.s.Operations() {
		all = append(all, v.Operation.ID)
	}
	return all
}

// sweeping is an entry that changes many volumes.
func (x *twins) sweeping() (string, proto.Message) {
	n := x.node()
	switch x.roll(7) {
	case 0, 1:
		return "admin/ann", &fsmpb.LoseNode{NodeId: string(n.ID), HostId: string(n.Host), Reason: "burnt"}
	case 2:
		c := x.w.s.Cluster()
		return "admin/ann", &fsmpb.ReplaceIncarnation{Counter: c.Incarnation + 1, IncarnationId: bytesOf(fmt.Sprint(x.at), 16)}
	case 3:
		return "admin/ann", &fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: x.w.s.Cluster().Incarnation}
	case 4:
		return "controller/c1", &fsmpb.SetNodeReachable{NodeId: string(n.ID), HostId: string(n.Host), Reachable: x.roll(2) == 0}
	}
	r := x.register()
	r.BootId = fmt.Sprintf("boot-%d", x.roll(30))
	return "node/" + r.NodeId, r
}

// losing tells whether a loss is not written yet.
func losing(w *world) bool {
	return slices.ContainsFunc(w.s.cluster.Sweeps, func(w Sweep) bool { return w.Kind == SweepLost })
}

func (x *twins) play() {
	for x.more() {
		if x.roll(8) == 0 {
			x.continueSweep()
		}
		e := x.next()
		if x.roll(12) == 0 {
			actor, body := x.sweeping()
			e.cmd = envelope(actor, fmt.Sprintf("swept %d", e.index), e.index-1, body)
		}
		if e.cmd.GetRegisterNode() != nil && x.roll(3) > 0 && losing(x.slow) {
			continue
		}
		if e.cmd.GetRegisterNode() != nil && losing(x.slow) {
			at := x.at
			x.at = e.index - 1 // a lost host's name and pools are given again once its loss is written
			x.finish()
			e.index += x.at - at + 1
			x.at = max(x.at, e.index)
		}
		x.step(e)
		if x.roll(20) == 0 {
			again := restored(x.w.t, x.slow.s)
			require.Equal(x.w.t, x.slow.s.Hash(), again.Hash())
			again.sweepBudget, x.slow.s = x.slow.s.sweepBudget, again
		}
	}
	x.finish()
	require.Equal(x.w.t, withoutMinors(x.w), withoutMinors(x.slow))
}

// S118, S5, S8: what a host's loss or new boot, or a restore, means for its volumes is in
// force from its entry on, however much of it is in their records: every decision that
// follows, and in the end every record, is what it is when all are written at once.
func TestS118_ASweepInBatchesEqualsOneAtOnce(t *testing.T) {
	for seed := range seeds(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			newTwins(t, &seededDice{r: rand.New(rand.NewSource(int64(seed))), left: 300}).play()
		})
	}
}

func FuzzSweeps(f *testing.F) {
	r := rand.New(rand.NewSource(1))
	for range 4 {
		b := make([]byte, 600)
		r.Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { newTwins(t, &fuzzDice{b: b[:min(len(b), 2000)]}).play() })
}
