package fsm

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func (w *world) loseNode(node string) {
	w.t.Helper()
	n, _ := w.s.Node(NodeID(node))
	w.twice(admin, &fsmpb.LoseNode{NodeId: node, HostId: string(n.Host), Reason: "burnt"})
}

func (w *world) volumeGoal(n int, node string) Goal {
	w.t.Helper()
	desired, ok := w.s.DesiredVolume(NodeID(node), VolumeID(volumeID(n)))
	require.True(w.t, ok)
	return desired.Goal
}

// S71: n2's replica is being removed while n2 is unreachable, and n1 is lost: n2's is the last copy.
func TestS71_LosingTheLastHostRestoresALeavingReplica(t *testing.T) {
	for name, away := range map[string]bool{"it is away": true, "it is slow": false} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.attach(1, "n2", 2)
			w.reportCurrent(1, "n2", inSyncObservation(7))
			w.reportCurrent(1, "n1", inSyncObservation(7))
			w.primary(1, "n1", 7)
			w.twice(controller, removeReplica("n2"))
			require.Equal(t, GoalRemove, w.volumeGoal(1, "n2"))
			w.setUnreachable("n2", away)
			w.loseNode("n1")
			v := w.volume(1)
			require.IsType(t, Ready{}, v.Phase)
			require.Equal(t, ReplicaPresent, v.Replica("host-n2").State)
			require.Equal(t, []ReplicaSync{{Outdated: true, Boot: "boot-1", Attachment: 2}}, syncsOf(v, "host-n2"), "not up to date, in the attachment that it has")
			require.Nil(t, v.Replication.Leaving)
			require.Nil(t, v.Operation)
			require.Equal(t, GoalKeep, w.volumeGoal(1, "n2"))
			w.setUnreachable("n2", false)
			w.rejected(Precondition, controller, publish(1, "n2"))
			w.rejected(Precondition, controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
			w.rejected(Precondition, controller, removeReplica("n2"))

			w.twice(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "n1 burnt"})
			w.ok(controller, publish(1, "n2"))
			w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
			observed := disconnectedObservation(9, standAlone)
			observed.Primary = true
			w.reportCurrent(1, "n2", observed)
			require.True(t, w.replicaSync(1, "n2").UpToDate)
			w.ok("node/n3", replicating("n3"))
			w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
		})
	}
}

// S71: its host removed the device just before it could learn that it is the last copy.
func TestS71_ALastCopyRemovedMeanwhileIsReportedMissing(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice(controller, removeReplica("n2"))
	w.loseNode("n1")
	w.report("n2", volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State, "it reported about a desired state that is over")
	w.report("n2", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
	v := w.volume(1)
	require.Equal(t, ReplicaMissing, v.Replica("host-n2").State)
	require.True(t, v.Condition.Abnormal)
	require.Equal(t, GoalKeep, w.volumeGoal(1, "n2"))
	w.report("n2", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DevicePresent{DevicePresent: &fsmpb.DevicePresent{}}})
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State)
}

// S71: a replica that is gone before the other host is lost stays gone.
func TestS71_AReplicaThatIsGoneDoesNotComeBack(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice(controller, removeReplica("n2"))
	w.report("n2", volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	w.loseNode("n1")
	require.True(t, !hasVolume(w, 1) || w.volume(1).isFailed())
}

func hasVolume(w *world, n int) bool {
	_, ok := w.s.Volume(VolumeID(volumeID(n)))
	return ok
}

// replaced is newReplicated where the replica on n2 is being removed, n2 is unreachable,
// and n3 took its place.
func replaced(t *testing.T) *world {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.ok("node/n4", replicating("n4"))
	w.twice(controller, removeReplica("n2"))
	w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
	return w
}

// synchronised reports that the device on n3 was created and is UpToDate.
func synchronised(w *world, node, with string) {
	w.t.Helper()
	w.attach(1, node, 1)
	w.report(node, volumeObservation(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(1).Size}}))
	w.reportCurrent(1, node, inSyncObservation(8))
	w.reportCurrent(1, with, inSyncObservation(8))
	w.reportCurrent(1, node, inSyncObservation(8))
	w.reportCurrent(1, with, inSyncObservation(8))
	require.True(w.t, w.replicaSync(1, node).UpToDate)
}

// S71: a replica that is being added has no content yet.
func TestS71_AReplicaThatIsBeingAddedIsNoCopy(t *testing.T) {
	for name, synchronising := range map[string]bool{"it is not made": false, "it is being synchronised": true} {
		t.Run(name, func(t *testing.T) {
			w := replaced(t)
			if synchronising {
				w.attach(1, "n3", 1)
				w.report("n3", volumeObservation(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(1).Size}}))
				w.reportCurrent(1, "n3", ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, SyncPercent: 40})
			}
			w.loseNode("n1")
			v := w.volume(1)
			require.Equal(t, ReplicaPresent, v.Replica("host-n2").State)
			require.Len(t, v.ActiveReplicas(), 2)
			for _, node := range []string{"n2", "n3"} {
				desired, _ := w.s.DesiredVolume(NodeID(node), v.ID)
				require.False(t, desired.Replication.Connect, "neither has what the other could take")
			}
			w.twice(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "n1 burnt"})
			w.ok(controller, publish(1, "n2"))
			w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
			for _, node := range []string{"n2", "n3"} {
				desired, _ := w.s.DesiredVolume(NodeID(node), v.ID)
				require.True(t, desired.Replication.Connect)
			}
		})
	}
}

// S71: of two replicas that are leaving the last one takes part again; the other is kept
// until an active replica is up to date again.
func TestS71_TheReplicaThatLeftLastIsRestored(t *testing.T) {
	w := replaced(t)
	synchronised(w, "n3", "n1")
	w.twice(controller, removeReplica("n1"))
	w.loseNode("n3")
	v := w.volume(1)
	require.Equal(t, ReplicaPresent, v.Replica("host-n1").State)
	require.Equal(t, ReplicaLeaving, v.Replica("host-n2").State)
	require.Equal(t, GoalKeep, w.volumeGoal(1, "n2"))
	w.loseNode("n1")
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State)
	w.loseNode("n2")
	require.False(t, hasVolume(w, 1) && !w.volume(1).isFailed())
}

// S71: a missing device is no copy to rely on.
func TestS71_AMissingDeviceRestoresALeavingReplica(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice(controller, removeReplica("n2"))
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State)
	require.Equal(t, GoalKeep, w.volumeGoal(1, "n2"))
	w.rejected(Precondition, controller, removeReplica("n2"))
	w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.Equal(t, GoalRemove, w.volumeGoal(1, "n2"), "deletion is said by DeleteVolume")
}

// S71: a disk that the kernel detached is no copy: the other one is kept meanwhile.
func TestS71_ALeavingReplicaIsKeptWhileTheOtherDiskIsUnusable(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice(controller, removeReplica("n2"))
	w.reportCurrent(1, "n1", ReplicaObservation{Disk: fsmpb.DiskState_DISK_STATE_DISKLESS, Connection: standAlone})
	require.Equal(t, GoalKeep, w.volumeGoal(1, "n2"))
	w.attach(1, "n1", 2)
	w.reportCurrent(1, "n1", disconnectedObservation(7, standAlone))
	require.Equal(t, GoalRemove, w.volumeGoal(1, "n2"))
}

// At feature level 1 the last copy is removed, as before.
func TestAtLevel1ALeavingReplicaDoesNotComeBack(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.twice(controller, removeReplica("n2"))
	w.loseNode("n1")
	require.Equal(t, ReplicaLeaving, w.volume(1).Replica("host-n2").State)
	require.Equal(t, GoalRemove, w.volumeGoal(1, "n2"))
	require.Nil(t, w.volume(1).Replication.Leaving)
}

// S71: a volume that level 1 left without an active replica is used by a forced
// promotion, from level 2 on.
func TestS71_ALastCopyOfLevel1IsRestoredByForcing(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.twice(controller, removeReplica("n2"))
	w.loseNode("n1")
	w.rejected(Precondition, controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
	w.ok(controller, &fsmpb.SetFeatureLevel{Level: Level2})
	require.Equal(t, GoalKeep, w.volumeGoal(1, "n2"))
	w.twice(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "n1 burnt"})
	require.Equal(t, ReplicaPresent, w.volume(1).Replica("host-n2").State)
	w.ok(controller, publish(1, "n2"))
}

// S71: in every order of removals, losses, additions, outages and returns, hosts that
// converge to their desired state keep a copy of the volume as long as not all hosts that
// had one were lost; and the volume is never published smaller than it was promised
// (S117).
func TestS71_NoOrderOfEventsRemovesTheLastCopy(t *testing.T) {
	for seed := range seeds(150) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playCopies(t, rand.New(rand.NewSource(int64(seed)))) })
	}
}

// copyPlayer plays the hosts that have the volume's device.
type copyPlayer struct {
	*world
	r        *rand.Rand
	holding  map[HostID]bool
	complete map[HostID]bool // its content is full
	next     int
	// promised is the size in bytes that an expansion was answered with.
	promised int64
}

func playCopies(t *testing.T, r *rand.Rand) {
	c := &copyPlayer{world: newReplicated(t, protocolC), r: r, next: 5,
		holding:  map[HostID]bool{"host-n1": true, "host-n2": true},
		complete: map[HostID]bool{"host-n1": true, "host-n2": true}}
	c.ok("node/n3", replicating("n3"))
	c.ok("node/n4", replicating("n4"))
	for range 60 {
		if !hasVolume(c.world, 1) || c.volume(1).isFailed() {
			break
		}
		c.step()
		c.check()
	}
}

func (c *copyPlayer) node() *Node {
	var all []*Node
	for n := range c.s.Nodes() {
		if n.State != NodeLost {
			all = append(all, n)
		}
	}
	return all[c.r.Intn(len(all))]
}

func (c *copyPlayer) step() {
	if len(slices.Collect(c.s.Nodes())) == 0 {
		return
	}
	n := c.node()
	switch c.r.Intn(18) {
	case 12:
		c.apply(controller, expandVolume(1, c.volume(1).Size+gib, 0))
	case 13:
		c.apply(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: string(n.ID), PeerDead: true})
	case 14, 15, 16:
		c.grow(n)
	case 0:
		c.apply(admin, &fsmpb.LoseNode{NodeId: string(n.ID), HostId: string(n.Host), Reason: "burnt"})
		delete(c.holding, n.Host)
		delete(c.complete, n.Host)
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
		c.removeIfAsked(n)
	}
}

// grow expands the host's device as desired, or reports that it cannot.
func (c *copyPlayer) grow(n *Node) {
	w, ok := c.s.DesiredVolume(n.ID, VolumeID(volumeID(1)))
	if !ok || w.Goal != GoalKeep || w.Operation == 0 || n.State != NodeReachable {
		return
	}
	o := grownObservation(1, w.Size)
	if c.r.Intn(4) == 0 {
		o = stepFailedOf(1, &fsmpb.StepFailed{Step: "change", Error: "full", Final: true, NoSpace: true, OperationId: uint64(w.Operation), Attempt: w.Attempt})
	}
	c.ok("node/"+string(n.ID), &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{o}})
}

// checkSize is S117: the volume is never smaller than the size that an expansion was
// answered with.
func (c *copyPlayer) checkSize(v *Volume) {
	c.t.Helper()
	if !v.isExpanding() && v.running(OpExpand) == nil {
		c.promised = max(c.promised, v.Size)
	}
	require.GreaterOrEqual(c.t, v.Size, c.promised)
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if n, ok := c.s.Node(r.Node); ok && n.Host == r.Host && r.Size < c.promised {
			require.NotNil(c.t, v.checkReplicaPublishable(n), "node %s is given %d bytes of %d", n.ID, r.Size, c.promised)
		}
	}
}

// removeIfAsked removes the host's device if that is desired, and reports it.
func (c *copyPlayer) removeIfAsked(n *Node) {
	w, ok := c.s.DesiredVolume(n.ID, VolumeID(volumeID(1)))
	if !ok || w.Goal != GoalRemove || n.State != NodeReachable {
		return
	}
	delete(c.holding, n.Host)
	delete(c.complete, n.Host)
	c.ok("node/"+string(n.ID), &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{
		volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}})}})
}

// synchronise creates what is planned and reports all replicas connected and UpToDate,
// where their desired state lets them connect.
func (c *copyPlayer) synchronise() {
	v := c.volume(1)
	for _, l := range v.ActiveReplicas() {
		n, ok := c.s.nodeOfReplica(l)
		if !ok || n.State != NodeReachable {
			return
		}
		if w, _ := c.s.DesiredVolume(n.ID, v.ID); len(v.ActiveReplicas()) > 1 && !w.Replication.Connect {
			return
		}
		c.holding[n.Host] = true
	}
	if len(v.ActiveReplicas()) < 2 {
		return
	}
	for range 2 {
		for _, l := range c.volume(1).ActiveReplicas() {
			n, _ := c.s.nodeOfReplica(l)
			at := max(1, l.Attachment)
			c.ok("node/"+string(n.ID), &fsmpb.AttachReplica{VolumeId: volumeID(1), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: at})
			observed := inSyncObservation(8)
			observed.Boot, observed.Attachment, observed.Generation = n.Boot, at, c.volume(1).Replication.Generation
			c.ok("node/"+string(n.ID), &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{
				volumeObservation(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}}),
				volumeObservation(1, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: observed.Proto()})}})
			c.complete[n.Host] = true
		}
	}
}

// check: each host that had the content and was not lost still has it, at least one; and
// a Ready volume of which there is a copy has an active replica with it.
func (c *copyPlayer) check() {
	c.t.Helper()
	if !hasVolume(c.world, 1) {
		return
	}
	v := c.volume(1)
	if _, ready := v.Phase.(Ready); !ready {
		require.Empty(c.t, c.complete, "a volume failed of which there is a copy")
		return
	}
	c.checkSize(v)
	sides := 0
	for _, l := range v.ActiveReplicas() {
		if c.complete[l.Host] {
			sides++
		}
	}
	if len(c.complete) > 0 {
		require.Positive(c.t, sides, "a copy on %v is no side of %v", c.complete, v.Replication)
	}
}

// S71: a disk from Outdated on has one consistent content; without one, in the kernel, a replica is no copy.
func TestS71_WhichDisksAreUnusable(t *testing.T) {
	for state, want := range map[fsmpb.DiskState]bool{diskless: true, inconsistent: true, fsmpb.DiskState_DISK_STATE_OUTDATED: false, consistent: false, upToDate: false} {
		require.Equal(t, want, ReplicaObservation{Boot: "boot-1", Disk: state}.diskUnusable(), state)
	}
	require.False(t, ReplicaObservation{}.diskUnusable(), "nothing was observed yet")
	require.False(t, ReplicaObservation{Boot: "boot-1", Disk: diskless, Unconfigured: true}.diskUnusable(), "the kernel does not have it")
}
