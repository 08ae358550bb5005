package fsm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CSI-CTRL-VolumeCondition-01: what the host said comes before its absence.
func TestVolumeConditionOfALocalVolume(t *testing.T) {
	reported := Condition{Abnormal: true, Message: "I/O errors"}
	node := func(change func(*Node)) func(*world) {
		return func(w *world) {
			n, _ := w.s.Node("n1")
			updated := *n
			change(&updated)
			w.s.putNode(updated)
		}
	}
	replica := func(state ReplicaState) func(*world) {
		return func(w *world) {
			r := w.volume(1).Replicas[0]
			r.State = state
			w.changeVolume(func(v *Volume) { *v = v.withReplica(r) })
		}
	}
	for name, tc := range map[string]struct {
		given         func(*world)
		want          string
		notAccessible bool
	}{
		"healthy":  {given: func(*world) {}},
		"reported": {given: func(w *world) { w.changeVolume(func(v *Volume) { v.Condition = reported }) }, want: "I/O errors"},
		"reported, and now unreachable": {given: func(w *world) {
			w.changeVolume(func(v *Volume) { v.Condition = reported })
			w.setUnreachable("n1", true)
		}, want: "I/O errors"},
		"unreachable":   {given: node(func(n *Node) { n.State = NodeUnreachable }), want: "node n1 cannot be reached"},
		"lost":          {given: node(func(n *Node) { n.State = NodeLost }), want: "node n1 was recorded as lost"},
		"another host":  {given: node(func(n *Node) { n.Host = "host-x" }), want: "node n1 is no longer the host that holds the data"},
		"not adopted":   {given: node(func(n *Node) { n.Incarnation++ }), want: "node n1 is in adoption mode"},
		"missing":       {given: replica(ReplicaMissing), want: "the device is missing on node n1"},
		"being removed": {given: replica(ReplicaGone), notAccessible: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			tc.given(w)
			v := w.volume(1)
			view := w.s.VolumeView(v)
			require.Equal(t, Condition{Abnormal: tc.want != "", Message: tc.want}, view.Condition(v))
			require.Equal(t, tc.notAccessible, len(view.AccessibleFrom(v)) == 0)
			require.Equal(t, w.s.cluster.Incarnation, view.Incarnation())
		})
	}
}

func TestStoredCondition(t *testing.T) {
	w := newReplicated(t, protocolC)
	stored := func() (string, bool) {
		c, ofReplication := w.s.StoredCondition(w.volume(1))
		require.Equal(t, c.Abnormal, c.Message != "")
		return c.Message, ofReplication
	}
	says, _ := stored()
	require.Empty(t, says)
	w.setUnreachable("n1", true)
	says, _ = stored()
	require.Empty(t, says, "reachability is no part of it")
	w.setUnreachable("n1", false)
	w.reportCurrent(1, "n1", ReplicaObservation{Unconfigured: true})
	says, ofReplication := stored()
	v := w.volume(1)
	require.Equal(t, w.s.ReplicationCondition(v), Condition{Abnormal: says != "", Message: says})
	require.Equal(t, says != "", ofReplication)
	require.Equal(t, w.s.VolumeView(v).Condition(v).Message, says)
	w.changeVolume(func(v *Volume) { v.Condition = Condition{Abnormal: true, Message: "I/O errors"} })
	says, ofReplication = stored()
	require.Equal(t, "I/O errors", says)
	require.False(t, ofReplication)
}

// A host that the state does not know any more has its own name as topology.
func TestAccessibleFrom(t *testing.T) {
	w := newReplicated(t, protocolC)
	v := w.volume(1)
	require.Equal(t, []Topology{{{TopologyKey, "n1"}}, {{TopologyKey, "n2"}}}, (&VolumeView{}).AccessibleFrom(v))
	require.Len(t, w.s.VolumeView(v).AccessibleFrom(v), 2)
}

func TestKnownVolumes(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ok(controller, create(2))
	w.ready(3, create(3))
	w.ready(4, create(4))
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(4)})
	ids := func(after string) (all []VolumeID) {
		for v := range w.s.KnownVolumes(VolumeID(after)) {
			all = append(all, v.ID)
			_, rej := w.s.KnownVolume(v.ID)
			require.Nil(t, rej)
		}
		return all
	}
	require.Equal(t, []VolumeID{VolumeID(volumeID(1)), VolumeID(volumeID(3))}, ids(""))
	require.Equal(t, []VolumeID{VolumeID(volumeID(3))}, ids(volumeID(1)))
	for _, n := range []int{2, 4, 9} {
		_, rej := w.s.KnownVolume(VolumeID(volumeID(n)))
		require.Equal(t, NotFound, rej.Why())
	}
	require.Len(t, slices.Collect(w.s.Volumes("")), 4)
}

func TestHasFilesystem(t *testing.T) {
	mounted, raw := &Volume{Capabilities: []Capability{{FSType: ext4}}}, &Volume{Capabilities: []Capability{{Block: true}}}
	require.True(t, mounted.HasFilesystem(nil))
	require.False(t, raw.HasFilesystem(nil))
	require.True(t, raw.HasFilesystem(mount(writer)))
	require.False(t, mounted.HasFilesystem(block(writer)))
}

// What is not described is not compared.
func TestCheckReplicatedAs(t *testing.T) {
	for name, tc := range map[string]struct {
		own      *Replication
		replicas uint32
		protocol fsmpb.Protocol
		says     string
	}{
		"nothing is described": {},
		"one replica":          {replicas: 1},
		"two of one":           {replicas: 2, says: "the volume was created with 1 replicas, not 2"},
		"one of two":           {own: &Replication{ReplicaCount: 2, Protocol: protocolC}, replicas: 1, says: "the volume was created with 2 replicas, not 1"},
		"the protocol":         {own: &Replication{ReplicaCount: 2, Protocol: protocolC}, replicas: 2, protocol: protocolC},
		"another protocol":     {own: &Replication{ReplicaCount: 2, Protocol: protocolC}, protocol: fsmpb.Protocol_PROTOCOL_A, says: "the volume was created with another protocol than A"},
		"a protocol for none":  {protocol: protocolC, says: "the volume was created with another protocol than C"},
	} {
		t.Run(name, func(t *testing.T) {
			requireRejected(t, Precondition, tc.says, (&Volume{Replication: tc.own}).CheckReplicatedAs(tc.replicas, tc.protocol))
		})
	}
	v := &Volume{Capabilities: []Capability{{Mode: writer, FSType: ext4}}}
	require.Nil(t, v.CheckSupports(Capability{Mode: writer}))
	requireRejected(t, Precondition, "the volume was not created for mount xfs ACCESS_MODE_SINGLE_NODE_WRITER", v.CheckSupports(Capability{Mode: writer, FSType: "xfs"}))
}
