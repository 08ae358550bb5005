package fsm

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// limitPorts leaves so many ports for a test, which does not run in parallel with others.
func limitPorts(t testing.TB, n uint32) {
	t.Helper()
	before := lastPort
	lastPort = firstPort + n - 1
	t.Cleanup(func() { lastPort = before })
}

// newHosts is a world of nodes n1 and so on that hold replicas.
func newHosts(t testing.TB, level uint32, n int) *world {
	w := &world{t: t, s: New()}
	first := bootstrap()
	first.FeatureLevel = level
	w.ok("controller/c1", first)
	for i := range n {
		w.ok(fmt.Sprintf("node/n%d", i+1), replicating(fmt.Sprintf("n%d", i+1)))
	}
	return w
}

// createBetween requests volume n with its replicas on two nodes.
func createBetween(n int, nodes ...string) *fsmpb.CreateVolume {
	c := createReplicated(n, protocolC)
	c.Requisite = terms(nodes...)
	return c
}

// readyBetween makes the replicated volume n, wherever it was placed.
func (w *world) readyBetween(n int) {
	w.t.Helper()
	nodes := w.nodesOf(n)
	for _, node := range nodes {
		w.attach(n, node, 1)
		w.report(node, volumeObservation(n, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(n).Size}}))
	}
	for range 2 {
		for _, node := range nodes {
			w.reportCurrent(n, node, inSyncObservation(7))
		}
	}
	require.Equal(w.t, Ready{}, w.volume(n).Phase)
}

func (w *world) nodesOf(n int) (nodes []string) {
	for _, r := range w.volume(n).Replicas {
		nodes = append(nodes, string(r.Node))
	}
	slices.Sort(nodes)
	return nodes
}

func (w *world) port(n int) uint32 { return w.volume(n).Replication.Port }

// S152, S18: a port belongs to one replica on its host; pairs of other hosts may have it
// too. When none is left the answer names the range, the hosts and the remedy.
func TestS152_APortIsOneReplicasOnItsHost(t *testing.T) {
	limitPorts(t, 3)
	w := newHosts(t, Level2, 5)
	for n, pair := range [][]string{{"n1", "n2"}, {"n1", "n3"}, {"n1", "n2"}, {"n3", "n4"}, {"n2", "n4"}} {
		w.twice(controller, createBetween(n+1, pair...))
	}
	require.Equal(t, []uint32{7800, 7801, 7802, 7800, 7801}, []uint32{w.port(1), w.port(2), w.port(3), w.port(4), w.port(5)})
	out := w.rejected(NoCapacity, controller, createBetween(6, "n1", "n5"))
	for _, part := range []string{"7800", "7802", "host-n1", "host-n5", "delete volumes", "cordon"} {
		require.Contains(t, out.GetRejection().GetMessage(), part)
	}
	out = w.rejected(NoCapacity, controller, createBetween(6, "n2", "n4"))
	require.Contains(t, out.GetRejection().GetMessage(), "no port", "two are free on either host, none on both")
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(3)})
	w.rejected(NoCapacity, controller, createBetween(6, "n1", "n5"))
	for _, node := range []string{"n1", "n2"} {
		w.report(node, volumeObservation(3, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	}
	w.twice(controller, createBetween(6, "n1", "n5"))
	require.EqualValues(t, 7802, w.port(6))
}

// S72: at level 1 a port is unique in the cluster.
func TestS72_AtLevel1APortIsTheClusters(t *testing.T) {
	limitPorts(t, 2)
	w := newHosts(t, Level1, 4)
	w.ok(controller, createBetween(1, "n1", "n2"))
	w.ok(controller, createBetween(2, "n3", "n4"))
	require.Equal(t, [2]uint32{7800, 7801}, [2]uint32{w.port(1), w.port(2)})
	out := w.rejected(NoCapacity, controller, createBetween(3, "n3", "n4"))
	require.Equal(t, "there are 2 replicated volumes: no port is left for another", out.GetRejection().GetMessage())
	w.ok(admin, &fsmpb.SetFeatureLevel{Level: Level2})
	w.ok(controller, createBetween(3, "n3", "n4"))
	require.EqualValues(t, 7800, w.port(3))
}

// S152: a host that joins a pair has another volume on its port: the pair takes another
// port, or, while a host has yet to remove its replica, another host.
func TestS152_AHostThatJoinsAPairDoesNotCollide(t *testing.T) {
	given := func(t *testing.T) *world {
		limitPorts(t, 2)
		w := newHosts(t, Level2, 4)
		w.ok(controller, createBetween(1, "n1", "n2"))
		w.readyBetween(1)
		w.ok(controller, createBetween(2, "n1", "n2"))
		w.readyBetween(2)
		w.ok(controller, createBetween(3, "n3", "n4"))
		require.Equal(t, w.port(1), w.port(3))
		return w
	}
	t.Run("another port", func(t *testing.T) {
		w := given(t)
		w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(2)})
		w.report("n1", volumeObservation(2, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
		w.ok(admin, &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2", Reason: "burnt"})
		w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
		require.EqualValues(t, 7801, w.port(1))
		desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
		require.EqualValues(t, 7801, desired.Replication.Port, "the host that stays hears of it")
	})
	t.Run("none is left", func(t *testing.T) {
		w := given(t)
		w.ok(admin, &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2", Reason: "burnt"})
		w.rejected(NoCapacity, controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
	})
	t.Run("another host while one listens on the old port", func(t *testing.T) {
		w := given(t)
		w.ok("node/n5", replicating("n5"))
		w.ok(controller, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: "n2", HostId: "host-n2", Reason: "drained"})
		w.rejected(NoCapacity, controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
		w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
		require.EqualValues(t, 7800, w.port(1))
		require.Equal(t, []string{"n1", "n2", "n5"}, w.nodesOf(1))
	})
}

// S152: whatever happens to hosts and replicas, no host has two replicas with one port:
// this is checked after each entry.
func TestS152_PortsUnderRandomCommands(t *testing.T) {
	limitPorts(t, 3)
	var all portFlood
	for seed := range seeds(12) {
		x := portFlood{r: rand.New(rand.NewSource(int64(seed))), w: newHosts(t, Level2, 6)}
		for range 250 {
			x.step()
		}
		require.NoError(t, restored(t, x.w.s).Check())
		all.shared, all.moved, all.none, all.joined = all.shared+x.shared, all.moved+x.moved, all.none+x.none, all.joined+x.joined
	}
	t.Logf("%d creates shared a port, %d had none; of %d replicas that joined %d took another port", all.shared, all.none, all.joined, all.moved)
	require.Positive(t, min(all.shared, all.moved, all.none, all.joined))
}

// portFlood creates volumes, and removes, loses and replaces replicas, at random.
type portFlood struct {
	r                           *rand.Rand
	w                           *world
	created                     int
	hosts                       int
	shared, moved, none, joined int
}

func (x *portFlood) step() {
	node := fmt.Sprintf("n%d", 1+x.r.Intn(6))
	at, _ := x.w.s.Node(NodeID(node))
	n, v := x.any()
	switch k := x.r.Intn(30); {
	case v == nil || k < 6:
		x.create()
	case k < 8:
		x.w.apply(controller, &fsmpb.DeleteVolume{VolumeId: string(v.ID)})
	case k < 12:
		x.removeDevices(n, v)
	case k < 15:
		r := v.Replicas[x.r.Intn(len(v.Replicas))]
		x.w.apply(controller, &fsmpb.RemoveReplica{VolumeId: string(v.ID), NodeId: string(r.Node), HostId: string(r.Host), Reason: "drained"})
	case k < 22:
		x.addReplica(n, v, node)
	case k < 23:
		x.w.apply(admin, &fsmpb.ScheduleNode{NodeId: node, HostId: string(at.Host), Cordoned: x.r.Intn(4) == 0})
	case k < 25:
		x.w.apply(admin, &fsmpb.LoseNode{NodeId: node, HostId: string(at.Host), Reason: "burnt"})
	default:
		x.registerAgain(node, at)
	}
}

// any is one of the volumes, nil when there is none.
func (x *portFlood) any() (n int, v *Volume) {
	var known []int
	for n := range x.created + 1 {
		if _, ok := x.w.s.Volume(VolumeID(volumeID(n))); ok {
			known = append(known, n)
		}
	}
	if len(known) == 0 {
		return 0, nil
	}
	n = known[x.r.Intn(len(known))]
	return n, x.w.volume(n)
}

func (x *portFlood) create() {
	x.created++
	out := x.w.apply(controller, createReplicated(x.created, protocolC))
	v, made := x.w.s.Volume(VolumeID(out.GetVolumeId()))
	if !made {
		x.none++
		return
	}
	for other := range x.w.s.Volumes("") {
		if other.ID != v.ID && other.Replication.Port == v.Replication.Port {
			x.shared++
			break
		}
	}
	x.makeReplicas(x.created)
}

func (x *portFlood) removeDevices(n int, v *Volume) {
	for _, r := range v.Replicas {
		if at, ok := x.w.s.Node(r.Node); ok && at.Host == r.Host {
			x.report(at, volumeObservation(n, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
		}
	}
}

func (x *portFlood) addReplica(n int, v *Volume, node string) {
	c := &fsmpb.AddReplica{VolumeId: string(v.ID)}
	if x.r.Intn(2) == 0 {
		c.NodeId = node
	}
	before, had := v.Replication.Port, len(v.Replicas)
	x.w.apply(controller, c)
	updated := x.w.volume(n)
	if len(updated.Replicas) == had {
		return
	}
	x.joined++
	if updated.Replication.Port != before {
		x.moved++
	}
	x.makeReplicas(n)
}

// makeReplicas creates most of the planned replicas, and then has all observed UpToDate.
func (x *portFlood) makeReplicas(n int) {
	for _, r := range x.w.volume(n).Replicas {
		at, _ := x.w.s.Node(r.Node)
		if r.State != ReplicaPlanned || x.r.Intn(6) == 0 {
			continue
		}
		x.w.apply("node/"+string(r.Node), &fsmpb.AttachReplica{VolumeId: volumeID(n), NodeId: string(r.Node), HostId: string(r.Host), BootId: at.Boot, Attach: 1})
		x.report(at, volumeObservation(n, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: gib}}))
	}
	for range 2 {
		for _, l := range x.w.volume(n).ActiveReplicas() {
			at, _ := x.w.s.Node(x.w.volume(n).Replica(l.Host).Node)
			observed := inSyncObservation(7)
			observed.Boot, observed.Attachment, observed.Generation = at.Boot, l.Attachment, x.w.volume(n).Replication.Generation
			x.report(at, volumeObservation(n, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: observed.Proto()}))
		}
	}
}

func (x *portFlood) report(at *Node, o *fsmpb.Observation) {
	x.w.apply("node/"+string(at.ID), &fsmpb.Report{NodeId: string(at.ID), HostId: string(at.Host), BootId: at.Boot, Observations: []*fsmpb.Observation{o}})
}

// registerAgain registers a node again: another host where it was lost.
func (x *portFlood) registerAgain(node string, at *Node) {
	r := replicating(node)
	if r.HostId, r.Pools[0].PoolId = string(at.Host), string(at.Pools[0].ID); at.State == NodeLost {
		x.hosts++
		r.HostId, r.Pools[0].PoolId = fmt.Sprintf("host-%s-%d", node, x.hosts), fmt.Sprintf("pool-%s-%d", node, x.hosts)
	}
	x.w.apply("node/"+node, r)
}

// BenchmarkFreePort: what it costs to find a port on a host that has one free port left.
func BenchmarkFreePort(b *testing.B) {
	x := newIndex()
	for port := uint32(firstPort); port < lastPort; port++ {
		at, bit := hostPort{"host-a", port}.place()
		have, _ := x.ports.Get(at)
		at.bits = have.bits | bit
		x.ports.Set(at)
	}
	begin := time.Now()
	for range b.N {
		if x.freePort(firstPort, "host-a", "host-b") != lastPort {
			b.Fatal("the last port is free")
		}
	}
	b.ReportMetric(float64(time.Since(begin).Microseconds())/float64(b.N), "µs/port")
}

// S152: which ports a host has in use follows the volume's record.
func TestS152_APortThatAVolumeHasNoMoreIsFree(t *testing.T) {
	w := newHosts(t, Level2, 2)
	w.ok(controller, createBetween(1, "n1", "n2"))
	updated := *w.volume(1)
	replication := *updated.Replication
	before := replication.Port
	replication.Port++
	updated.Replication = &replication
	w.s.putVolume(updated)
	require.False(t, w.s.index.hasPort(hostPort{"host-n1", before}))
	require.True(t, w.s.index.hasPort(hostPort{"host-n1", before + 1}))
}
