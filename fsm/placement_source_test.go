package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// withThird is a world of a replicated volume 1 on n1 and n2, and of the node n3.
func withThird(t testing.TB) *world {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	return w
}

func createClone(n int, replicas uint32, requisite, preferred []*fsmpb.Topology) *fsmpb.CreateVolume {
	c := createFrom(n, fromVolume(1))
	c.Replicas, c.Requisite, c.Preferred = replicas, requisite, preferred
	return c
}

func unreachableNode(node string) func(*world) {
	return func(w *world) {
		w.ok(controller, &fsmpb.SetNodeReachable{NodeId: node, HostId: "host-" + node})
	}
}

// CSI-CTRL-CreateVolume-38, CSI-CTRL-Topology-02, -07, -10: each replica that is up to date serves a clone, as the
// topology asks for it: strict (one term), not strict (the chosen one is preferred
// among all), and of an Immediate class (none is preferred).
func TestACloneIsPlacedOnAnyHostOfItsSource(t *testing.T) {
	all := terms("n1", "n2", "n3")
	for name, tc := range map[string]struct {
		given func(*world)
		ask   *fsmpb.CreateVolume
		first NodeID
		want  Reason
	}{
		"immediate: the seed":                              {ask: createClone(2, 1, all, nil), first: "n1"},
		"no topology at all: the seed":                     {ask: createClone(2, 1, nil, nil), first: "n1"},
		"strict: the seed":                                 {ask: createClone(2, 1, terms("n1"), terms("n1")), first: "n1"},
		"strict: the other replica":                        {ask: createClone(2, 1, terms("n2"), terms("n2")), first: "n2"},
		"strict: a host without the source":                {ask: createClone(2, 1, terms("n3"), terms("n3")), want: NoCapacity},
		"not strict: the other replica is preferred":       {ask: createClone(2, 1, all, terms("n2", "n1", "n3")), first: "n2"},
		"not strict: the first preferred that keeps it":    {ask: createClone(2, 1, all, terms("n3", "n2", "n1")), first: "n2"},
		"not strict: a host without the source":            {ask: createClone(2, 1, all, terms("n3")), first: "n1"},
		"two replicas: the first where the source is":      {ask: createClone(2, 2, all, terms("n2", "n3")), first: "n2"},
		"two replicas, strict":                             {ask: createClone(2, 2, terms("n2"), terms("n2")), first: "n2"},
		"the other replica where the seed does not answer": {given: unreachableNode("n1"), ask: createClone(2, 1, nil, nil), first: "n2"},
		"not the other replica while it does not answer":   {given: unreachableNode("n2"), ask: createClone(2, 1, terms("n2"), nil), want: NoCapacity},
		"not a replica that is not up to date": {ask: createClone(2, 1, terms("n2"), nil), want: NoCapacity, given: func(w *world) {
			w.reportCurrent(1, "n2", ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, UUID: 7})
		}},
		"not a replica whose connection is cut": {ask: createClone(2, 1, terms("n2"), nil), want: NoCapacity, given: func(w *world) {
			w.reportCurrent(1, "n2", disconnectedObservation(7, connecting))
		}},
		"not the other replica while the source is published": {ask: createClone(2, 1, terms("n2"), nil), want: NoCapacity, given: func(w *world) {
			w.ok(controller, publish(1, "n1"))
		}},
		"a source in use is copied where it is used": {ask: createClone(2, 1, all, terms("n1")), first: "n2", given: func(w *world) {
			w.ok(controller, publish(1, "n2"))
		}},
		"another replica where a pool is full": {ask: sized(createClone(2, 1, nil, terms("n1")), 16<<40-VolumeSizeUnit, 0), first: "n2", given: func(w *world) {
			w.ok(controller, inTopology(sized(create(5), 5<<40, 0), "n1"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := withThird(t)
			if tc.given != nil {
				tc.given(w)
			}
			if tc.want != 0 {
				w.rejected(tc.want, controller, tc.ask)
				return
			}
			w.twice(controller, tc.ask)
			v := w.volume(2)
			require.Equal(t, tc.first, v.Replicas[0].Node)
			desired, _ := w.s.DesiredVolume(tc.first, v.ID)
			require.Equal(t, VolumeID(volumeID(1)), desired.Source.Volume, "that host makes it")
			if tc.ask.Replicas == 2 {
				require.Equal(t, v.Replicas[0].Host, v.Replication.Seed)
			}
		})
	}
}

// CSI-CTRL-Topology-02, -10: a snapshot is on one host, also one of a replicated volume.
func TestAVolumeOfASnapshotIsOnTheHostThatTookIt(t *testing.T) {
	w := withThird(t)
	w.takeSnapshot(1, 1)
	at := func(nodes ...string) *fsmpb.CreateVolume {
		c := createFrom(2, fromSnapshot(1))
		c.Requisite = terms(nodes...)
		return c
	}
	w.rejected(NoCapacity, controller, at("n2"))
	w.rejected(NoCapacity, controller, at("n2", "n3"))
	w.twice(controller, at("n1", "n2", "n3"))
	require.Equal(t, NodeID("n1"), w.volume(2).Replicas[0].Node)
}

// S72: at level 1 a clone goes to the seed, or nowhere.
func TestS72_AtLevel1ACloneIsPlacedOnTheSeed(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.rejected(NoCapacity, controller, createClone(2, 1, terms("n2"), nil))
	w.ok(controller, createClone(2, 1, terms("n1", "n2"), terms("n2")))
	require.Equal(t, NodeID("n1"), w.volume(2).Replicas[0].Node)
}

// CSI-CTRL-Topology-04, -05, -06, -20: two replicas use two of the topologies that are required; with one
// that is required the second is free.
func TestTwoReplicasUseTwoOfTheRequiredTopologies(t *testing.T) {
	zone := func(names ...string) (all []*fsmpb.Topology) {
		for _, z := range names {
			all = append(all, &fsmpb.Topology{Segments: []*fsmpb.Label{{Key: ZoneKey, Value: z}}})
		}
		return all
	}
	for name, tc := range map[string]struct {
		requisite, preferred []*fsmpb.Topology
		given                func(*world)
		want                 []NodeID // none: RESOURCE_EXHAUSTED
	}{
		"both of two nodes":                          {requisite: terms("n1", "n2"), want: []NodeID{"n2", "n1"}},
		"both of two nodes, one is silent":           {requisite: terms("n1", "n2"), given: unreachableNode("n2")},
		"both of two zones":                          {requisite: zone("a", "b"), want: []NodeID{"n3", "n2"}},
		"both of two zones, one is silent":           {requisite: zone("a", "b"), given: unreachableNode("n3")},
		"two of three nodes":                         {requisite: terms("n1", "n2", "n3"), want: []NodeID{"n3", "n2"}},
		"one zone that is given twice":               {requisite: zone("a", "a"), given: unreachableNode("n3"), want: []NodeID{"n2", "n1"}},
		"one zone, the second is free":               {requisite: zone("b"), want: []NodeID{"n3", "n4"}},
		"one node, the second is free":               {requisite: terms("n1"), want: []NodeID{"n1", "n4"}},
		"the combination of the two that come first": {requisite: zone("a", "b", "c"), preferred: zone("b", "a"), want: []NodeID{"n3", "n2"}},
		"the first preferred and any other":          {requisite: zone("a", "b", "c"), preferred: zone("b", "a"), want: []NodeID{"n3", "n4"}, given: func(w *world) { unreachableNode("n1")(w); unreachableNode("n2")(w) }},
		"a term of nodes, and one of their zone":     {requisite: append(terms("n1"), zone("a")...), want: []NodeID{"n2", "n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := zoned(t, "a", "a", "b", "c")
			if tc.given != nil {
				tc.given(w)
			}
			c := createReplicated(1, protocolC)
			c.Requisite, c.Preferred = tc.requisite, tc.preferred
			if tc.want == nil {
				w.rejected(NoCapacity, controller, c)
				return
			}
			w.twice(controller, c)
			v := w.volume(1)
			require.Equal(t, tc.want, []NodeID{v.Replicas[0].Node, v.Replicas[1].Node})
		})
	}
}
