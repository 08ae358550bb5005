package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// losingTheGoodCopy: a volume at both sites, of which B's first replica is leaving while its host is away, and
// another is being added there. Then A's host, with the only good copy, is lost.
func losingTheGoodCopy(t *testing.T, meanwhile func(w *sites, added string)) (w *sites, leaving, added string) {
	t.Helper()
	w = newSites(t)
	w.at("A", func(string) {
		w.readyReplicatedBy(controllerA, 1, changed(1, func(c *fsmpb.CreateVolume) { c.Replicas, c.Sites = 2, []string{"A", "B"} }))
	})
	v := w.volume(1)
	good, leaving := string(v.ActiveReplicas()[0].Node), string(v.ActiveReplicas()[1].Node)
	require.Equal(t, "A", w.siteOfNode(NodeID(good)))
	w.attach(1, leaving, 2)
	w.reportCurrent(1, leaving, inSyncObservation(7))
	w.reportCurrent(1, good, inSyncObservation(7))
	w.primary(1, good, 7)
	w.ok(controllerA, removeReplica(leaving))
	w.setUnreachable(leaving, true)
	added = otherThan(NodeID(leaving), "n3", "n4")
	w.ok(controllerA, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: added})
	meanwhile(w, added)
	w.loseNode(good)
	require.NoError(t, w.s.Check())
	return w, leaving, added
}

func (w *sites) replicaState(node string) ReplicaState {
	w.t.Helper()
	return w.volume(1).Replica(HostID("host-" + node)).State
}

// S32, S71: the last copy takes part again at its site, and the one that was being added there leaves for it.
func TestS32_TheLastCopyIsRestoredInThePlaceOfOneWithoutContent(t *testing.T) {
	w, leaving, added := losingTheGoodCopy(t, func(*sites, string) {})
	require.Equal(t, ReplicaPresent, w.replicaState(leaving))
	require.Equal(t, ReplicaLeaving, w.replicaState(added))
	require.Equal(t, GoalKeep, w.volumeGoal(1, leaving))
	w.setUnreachable(leaving, false)
	w.ok("admin/ann", &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: leaving, Reason: "burnt"})
	require.NoError(t, w.s.Check())
}

// S32, S71: where both may be wanted, the later one stays, nothing is removed, and an operator chooses: to force
// the one that was leaving has the other leave for it.
func TestS32_AnOperatorChoosesBetweenTwoCopiesAtOneSite(t *testing.T) {
	w, leaving, added := losingTheGoodCopy(t, func(w *sites, added string) {
		w.report(added, &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: w.volume(1).Size}}})
	})
	require.Equal(t, ReplicaPresent, w.replicaState(added))
	require.Equal(t, ReplicaLeaving, w.replicaState(leaving))
	require.NotEqual(t, GoalRemove, w.volumeGoal(1, leaving), "it may be the better one")
	w.setUnreachable(leaving, false)
	w.twice("admin/ann", &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: leaving, Reason: "burnt", PeerDead: true})
	require.NoError(t, w.s.Check())
	require.Equal(t, ReplicaPresent, w.replicaState(leaving))
	require.Equal(t, ReplicaLeaving, w.replicaState(added))
	require.NotEqual(t, GoalRemove, w.volumeGoal(1, added), "until the other is primary")
	require.NotNil(t, w.volume(1).OperationOf(OpReplicaChange))
}
