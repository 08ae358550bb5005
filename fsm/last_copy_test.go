package fsm

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func (w *world) lose(node string) {
	w.t.Helper()
	n, _ := w.s.Node(NodeID(node))
	w.twice(admin, &fsmpb.LoseNode{NodeId: node, HostId: string(n.Host), Reason: "burnt"})
}

func (w *world) volumeVerb(n int, node string) Verb {
	w.t.Helper()
	wish, ok := w.s.Wish(NodeID(node), VolumeID(volumeID(n)))
	require.True(w.t, ok)
	return wish.Verb
}

// S71: n2 is evicted and away, n1 burns: what n2 has is the last copy.
func TestS71_LosingTheLastHostTakesALeavingReplicaBack(t *testing.T) {
	for name, away := range map[string]bool{"it is away": true, "it is slow": false} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.attach(1, "n2", 2)
			w.sees(1, "n2", together(7))
			w.sees(1, "n1", together(7))
			w.primary(1, "n1", 7)
			w.twice(controller, remove("n2"))
			require.Equal(t, WishRemove, w.volumeVerb(1, "n2"))
			w.away("n2", away)
			w.lose("n1")
			v := w.volume(1)
			require.IsType(t, Ready{}, v.Phase)
			require.Equal(t, ReplicaPresent, v.Replica("host-n2").State)
			require.Equal(t, []Leg{{Host: "host-n2", Outdated: true, Boot: "boot-1", Attach: 2}}, v.Replication.Legs, "not up to date, in the attachment that it has")
			require.Nil(t, v.Replication.Left)
			require.Nil(t, v.Operation)
			require.Equal(t, WishKeep, w.volumeVerb(1, "n2"))
			w.away("n2", false)
			w.no(Precondition, controller, publish(1, "n2"))
			w.no(Precondition, controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
			w.no(Precondition, controller, remove("n2"))

			w.twice(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "n1 burnt"})
			w.ok(controller, publish(1, "n2"))
			w.ok("node/n2", w.setPrimary(1, "n2", apart(7, alone)))
			seen := apart(9, alone)
			seen.Primary = true
			w.sees(1, "n2", seen)
			require.True(t, w.leg(1, "n2").UpToDate)
			w.ok("node/n3", replicating("n3"))
			w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
		})
	}
}

// S71: its host removed the device just before it could hear that it is the last.
func TestS71_ALastCopyThatIsGoneAllTheSameIsMissing(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice(controller, remove("n2"))
	w.lose("n1")
	w.report("n2", observed(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State, "what it said was of a wish that is over")
	w.report("n2", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
	v := w.volume(1)
	require.Equal(t, ReplicaMissing, v.Replica("host-n2").State)
	require.True(t, v.Condition.Abnormal)
	require.Equal(t, WishKeep, w.volumeVerb(1, "n2"))
	w.report("n2", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DevicePresent{DevicePresent: &fsmpb.DevicePresent{}}})
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State)
}

// S71: gone before the other host is lost, it is gone.
func TestS71_AReplicaThatIsGoneDoesNotComeBack(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice(controller, remove("n2"))
	w.report("n2", observed(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	w.lose("n1")
	require.True(t, !hasVolume(w, 1) || w.volume(1).failed())
}

func hasVolume(w *world, n int) bool {
	_, ok := w.s.Volume(VolumeID(volumeID(n)))
	return ok
}

// replaced is newReplicated where n2 was given up, is away, and n3 took its place.
func replaced(t *testing.T) *world {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.ok("node/n4", replicating("n4"))
	w.twice(controller, remove("n2"))
	w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
	return w
}

// synchronised reports that n3 was made and is whole.
func synchronised(w *world, node, with string) {
	w.t.Helper()
	w.attach(1, node, 1)
	w.report(node, observed(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(1).Size}}))
	w.sees(1, node, together(8))
	w.sees(1, with, together(8))
	w.sees(1, node, together(8))
	w.sees(1, with, together(8))
	require.True(w.t, w.leg(1, node).UpToDate)
}

// S71: the one that is being added has nothing yet.
func TestS71_AReplicaThatIsBeingAddedIsNoCopy(t *testing.T) {
	for name, synchronising := range map[string]bool{"it is not made": false, "it is being synchronised": true} {
		t.Run(name, func(t *testing.T) {
			w := replaced(t)
			if synchronising {
				w.attach(1, "n3", 1)
				w.report("n3", observed(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(1).Size}}))
				w.sees(1, "n3", ReplicaSeen{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, Percent: 40})
			}
			w.lose("n1")
			v := w.volume(1)
			require.Equal(t, ReplicaPresent, v.Replica("host-n2").State)
			require.Len(t, v.Replication.Legs, 2)
			for _, node := range []string{"n2", "n3"} {
				wish, _ := w.s.Wish(NodeID(node), v.ID)
				require.False(t, wish.Replication.Connect, "neither has what the other could take")
			}
			w.twice(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "n1 burnt"})
			w.ok(controller, publish(1, "n2"))
			w.ok("node/n2", w.setPrimary(1, "n2", apart(7, alone)))
			for _, node := range []string{"n2", "n3"} {
				wish, _ := w.s.Wish(NodeID(node), v.ID)
				require.True(t, wish.Replication.Connect)
			}
		})
	}
}

// S71: of two that were given up the last comes back; the other is kept, until a side
// is up to date again.
func TestS71_TheOneThatLeftLastComesBack(t *testing.T) {
	w := replaced(t)
	synchronised(w, "n3", "n1")
	w.twice(controller, remove("n1"))
	w.lose("n3")
	v := w.volume(1)
	require.Equal(t, ReplicaPresent, v.Replica("host-n1").State)
	require.Equal(t, ReplicaLeaving, v.Replica("host-n2").State)
	require.Equal(t, WishKeep, w.volumeVerb(1, "n2"))
	w.lose("n1")
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State)
	w.lose("n2")
	require.False(t, hasVolume(w, 1) && !w.volume(1).failed())
}

// S71: a device that is missing was no copy to rely on.
func TestS71_AMissingDeviceTakesALeavingReplicaBack(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice(controller, remove("n2"))
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State)
	require.Equal(t, WishKeep, w.volumeVerb(1, "n2"))
	w.no(Precondition, controller, remove("n2"))
	w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.Equal(t, WishRemove, w.volumeVerb(1, "n2"), "deletion is said by DeleteVolume")
}

// S71: a disk that the kernel gave up is no copy: the other one is kept meanwhile.
func TestS71_ALeavingReplicaIsKeptWhileTheOtherDiskIsIll(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice(controller, remove("n2"))
	w.sees(1, "n1", ReplicaSeen{Disk: fsmpb.DiskState_DISK_STATE_DISKLESS, Connection: alone})
	require.Equal(t, WishKeep, w.volumeVerb(1, "n2"))
	w.attach(1, "n1", 2)
	w.sees(1, "n1", apart(7, alone))
	require.Equal(t, WishRemove, w.volumeVerb(1, "n2"))
}

// At feature level 1 nothing is otherwise than it was.
func TestAtLevel1ALeavingReplicaDoesNotComeBack(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.twice(controller, remove("n2"))
	w.lose("n1")
	require.Equal(t, ReplicaLeaving, w.volume(1).Replica("host-n2").State)
	require.Equal(t, WishRemove, w.volumeVerb(1, "n2"))
	require.Nil(t, w.volume(1).Replication.Left)
}

// S71: what level 1 left without a side is used by a decision, from level 2 on.
func TestS71_ALastCopyOfLevel1ComesBackByADecision(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.twice(controller, remove("n2"))
	w.lose("n1")
	w.no(Precondition, controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
	w.ok(controller, &fsmpb.SetFeatureLevel{Level: Level2})
	require.Equal(t, WishKeep, w.volumeVerb(1, "n2"))
	w.twice(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "n1 burnt"})
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State)
	w.ok(controller, publish(1, "n2"))
}

// S71: in every order of giving up, losing, adding, being away and coming back, hosts
// that do what they are asked keep a copy of the volume as long as not all that had one
// were lost; and what is left of it is never given out smaller than it was promised (S117).
func TestS71_NoOrderRemovesTheLastCopy(t *testing.T) {
	for seed := range 150 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playCopies(t, rand.New(rand.NewSource(int64(seed)))) })
	}
}

// copies are the hosts that have the volume's device.
type copies struct {
	*world
	r    *rand.Rand
	has  map[HostID]bool
	full map[HostID]bool // with content
	next int
	// promised is the size in bytes that an expansion ended with.
	promised int64
}

func playCopies(t *testing.T, r *rand.Rand) {
	c := &copies{world: newReplicated(t, protocolC), r: r, next: 5,
		has:  map[HostID]bool{"host-n1": true, "host-n2": true},
		full: map[HostID]bool{"host-n1": true, "host-n2": true}}
	c.ok("node/n3", replicating("n3"))
	c.ok("node/n4", replicating("n4"))
	for range 60 {
		if !hasVolume(c.world, 1) || c.volume(1).failed() {
			break
		}
		c.step()
		c.check()
	}
}

func (c *copies) node() *Node {
	var all []*Node
	for n := range c.s.Nodes() {
		if n.State != NodeLost {
			all = append(all, n)
		}
	}
	return all[c.r.Intn(len(all))]
}

func (c *copies) step() {
	if len(slices.Collect(c.s.Nodes())) == 0 {
		return
	}
	n := c.node()
	switch c.r.Intn(18) {
	case 12:
		c.apply(controller, expand(1, c.volume(1).Size+gib, 0))
	case 13:
		c.apply(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: string(n.ID), PeerDead: true})
	case 14, 15, 16:
		c.grow(n)
	case 0:
		c.apply(admin, &fsmpb.LoseNode{NodeId: string(n.ID), HostId: string(n.Host), Reason: "burnt"})
		delete(c.has, n.Host)
		delete(c.full, n.Host)
		again := replicating(string(n.ID))
		c.next++
		again.HostId, again.Pools[0].PoolId = fmt.Sprint("host-", c.next), fmt.Sprint("pool-", c.next)
		c.ok("node/"+string(n.ID), again)
	case 1:
		c.apply(controller, &fsmpb.SetNodeReachable{NodeId: string(n.ID), HostId: string(n.Host), Reachable: c.r.Intn(2) == 0})
	case 2, 3, 4:
		c.apply(controller, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: string(n.ID), HostId: string(n.Host)})
	case 5, 6:
		c.apply(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
	case 7, 8, 9:
		c.synchronise()
	default:
		c.obey(n)
	}
}

// grow grows the host's device as it is asked to, or says that it cannot.
func (c *copies) grow(n *Node) {
	w, ok := c.s.Wish(n.ID, VolumeID(volumeID(1)))
	if !ok || w.Verb != WishKeep || w.Operation == 0 || n.State != NodeReachable {
		return
	}
	o := grown(1, w.Size)
	if c.r.Intn(4) == 0 {
		o = stepFailedOf(1, &fsmpb.StepFailed{Step: "change", Error: "full", Final: true, NoSpace: true, OperationId: uint64(w.Operation), Attempt: w.Attempt})
	}
	c.ok("node/"+string(n.ID), &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{o}})
}

// checkSize is S117: nobody is given less than what an expansion ended with.
func (c *copies) checkSize(v *Volume) {
	c.t.Helper()
	if !v.growing() && v.running(OpExpand) == nil {
		c.promised = max(c.promised, v.Size)
	}
	require.GreaterOrEqual(c.t, v.Size, c.promised)
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if n, ok := c.s.Node(r.Node); ok && n.Host == r.Host && r.Size < c.promised {
			require.NotNil(c.t, v.mayLead(n), "node %s is given %d bytes of %d", n.ID, r.Size, c.promised)
		}
	}
}

// obey does what the host is asked.
func (c *copies) obey(n *Node) {
	w, ok := c.s.Wish(n.ID, VolumeID(volumeID(1)))
	if !ok || w.Verb != WishRemove || n.State != NodeReachable {
		return
	}
	delete(c.has, n.Host)
	delete(c.full, n.Host)
	c.ok("node/"+string(n.ID), &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{
		observed(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}})}})
}

// synchronise makes what is planned and has all sides seen together, where the log lets
// them connect.
func (c *copies) synchronise() {
	v := c.volume(1)
	for i := range v.Replication.Legs {
		l := &v.Replication.Legs[i]
		n, ok := c.s.replicaNode(v, l.Host)
		if !ok || n.State != NodeReachable {
			return
		}
		if w, _ := c.s.Wish(n.ID, v.ID); len(v.Replication.Legs) > 1 && !w.Replication.Connect {
			return
		}
		c.has[n.Host] = true
	}
	if len(v.Replication.Legs) < 2 {
		return
	}
	for range 2 {
		for _, l := range c.volume(1).Replication.Legs {
			n, _ := c.s.replicaNode(c.volume(1), l.Host)
			at := max(1, l.Attach)
			c.ok("node/"+string(n.ID), &fsmpb.AttachReplica{VolumeId: volumeID(1), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: at})
			seen := together(8)
			seen.Boot, seen.Attach, seen.Generation = n.Boot, at, c.volume(1).Replication.Generation
			c.ok("node/"+string(n.ID), &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{
				observed(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}}),
				observed(1, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()})}})
			c.full[n.Host] = true
		}
	}
}

// check: whoever has the content and was not lost still has it, one at least; and a
// Ready volume with a copy has a side that has it.
func (c *copies) check() {
	c.t.Helper()
	if !hasVolume(c.world, 1) {
		return
	}
	v := c.volume(1)
	if _, ready := v.Phase.(Ready); !ready {
		require.Empty(c.t, c.full, "a volume failed of which there is a copy")
		return
	}
	c.checkSize(v)
	sides := 0
	for i := range v.Replication.Legs {
		if c.full[v.Replication.Legs[i].Host] {
			sides++
		}
	}
	if len(c.full) > 0 {
		require.Positive(c.t, sides, "a copy on %v is no side of %v", c.full, v.Replication)
	}
}
