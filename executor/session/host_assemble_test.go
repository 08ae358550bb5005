package session

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func desiredMessage(d *sessionpb.DesiredState) *sessionpb.ToNode {
	return &sessionpb.ToNode{Body: &sessionpb.ToNode_Desired{Desired: d}}
}

func welcomeMessage(incarnation uint64, id string) *sessionpb.ToNode {
	return &sessionpb.ToNode{Body: &sessionpb.ToNode_Welcome{Welcome: &sessionpb.Welcome{Incarnation: incarnation, IncarnationId: []byte(id)}}}
}

func protoEpoch(incarnation, index uint64) *fsmpb.Epoch {
	return &fsmpb.Epoch{Incarnation: incarnation, Index: index}
}

// assemble returns the updates of these messages.
func assemble(a *updateAssembler, messages ...*sessionpb.ToNode) (updates []executor.Update, err error) {
	for _, m := range messages {
		u, err := a.add(m)
		if err != nil {
			return updates, err
		}
		if u != nil {
			updates = append(updates, *u)
		}
	}
	return updates, nil
}

func TestWhatAHostMustNotActOnEndsTheSession(t *testing.T) {
	for name, tc := range map[string]struct {
		messages []*sessionpb.ToNode
		want     string
	}{
		"desired state before the welcome":           {[]*sessionpb.ToNode{desiredMessage(&sessionpb.DesiredState{Full: true, At: protoEpoch(2, 9)})}, "before a welcome"},
		"another incarnation than the welcome's":     {[]*sessionpb.ToNode{welcomeMessage(3, "x"), desiredMessage(&sessionpb.DesiredState{Full: true, At: protoEpoch(4, 9)})}, "not of the incarnation 3"},
		"S14: older than what was acted on":          {[]*sessionpb.ToNode{welcomeMessage(2, "id"), desiredMessage(&sessionpb.DesiredState{Full: true, At: protoEpoch(2, 4)})}, "older than 2.5"},
		"S1: an older incarnation with a high index": {[]*sessionpb.ToNode{welcomeMessage(1, "id"), desiredMessage(&sessionpb.DesiredState{Full: true, At: protoEpoch(1, 999)})}, "older than 2.5"},
		"an index that goes back":                    {[]*sessionpb.ToNode{welcomeMessage(2, "id"), desiredMessage(&sessionpb.DesiredState{Full: true, At: protoEpoch(2, 9)}), desiredMessage(&sessionpb.DesiredState{At: protoEpoch(2, 8)})}, "came after"},
		"a change before the full state":             {[]*sessionpb.ToNode{welcomeMessage(2, "id"), desiredMessage(&sessionpb.DesiredState{At: protoEpoch(2, 9), VolumesGone: []string{"v"}})}, "not the full one"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := assemble(&updateAssembler{actedEpoch: fsm.Epoch{Incarnation: 2, Index: 5}, actedIncarnationID: []byte("id")}, tc.messages...)
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestTheAssemblerYieldsChangesAndNoHeartbeats(t *testing.T) {
	a := &updateAssembler{}
	updates, err := assemble(a,
		welcomeMessage(1, "id"),
		desiredMessage(&sessionpb.DesiredState{Full: true, At: protoEpoch(1, 5), Volumes: []*sessionpb.DesiredVolume{{Volume: "v1"}}, Adopted: true}),
		desiredMessage(&sessionpb.DesiredState{At: protoEpoch(1, 5), Adopted: true}), // a heartbeat
		desiredMessage(&sessionpb.DesiredState{At: protoEpoch(1, 7), Adopted: true}), // another, later
		desiredMessage(&sessionpb.DesiredState{At: protoEpoch(1, 8), VolumesGone: []string{"v1"}, Adopted: true}),
		desiredMessage(&sessionpb.DesiredState{At: protoEpoch(1, 8), Snapshots: []*sessionpb.DesiredSnapshot{{Snapshot: "s1"}}, Adopted: true}),
		desiredMessage(&sessionpb.DesiredState{At: protoEpoch(1, 8), SnapshotsGone: []string{"s1"}, Adopted: true}),
		desiredMessage(&sessionpb.DesiredState{At: protoEpoch(1, 9)}),                   // not adopted any more
		desiredMessage(&sessionpb.DesiredState{At: protoEpoch(1, 10), FeatureLevel: 2}), // the level rose
	)
	require.NoError(t, err)
	require.Equal(t, []executor.Update{
		{At: fsm.Epoch{Incarnation: 1, Index: 5}, Full: true, Volumes: []fsm.DesiredVolume{{Volume: "v1"}}, Adopted: true, FeatureLevel: 1, IncarnationID: []byte("id")},
		{At: fsm.Epoch{Incarnation: 1, Index: 8}, VolumesGone: []fsm.VolumeID{"v1"}, Adopted: true, FeatureLevel: 1, IncarnationID: []byte("id")},
		{At: fsm.Epoch{Incarnation: 1, Index: 8}, Snapshots: []fsm.DesiredSnapshot{{Snapshot: "s1"}}, Adopted: true, FeatureLevel: 1, IncarnationID: []byte("id")},
		{At: fsm.Epoch{Incarnation: 1, Index: 8}, SnapshotsGone: []fsm.SnapshotID{"s1"}, Adopted: true, FeatureLevel: 1, IncarnationID: []byte("id")},
		{At: fsm.Epoch{Incarnation: 1, Index: 9}, FeatureLevel: 1, IncarnationID: []byte("id")},
		{At: fsm.Epoch{Incarnation: 1, Index: 10}, FeatureLevel: 2, IncarnationID: []byte("id")},
	}, updates)
}

func TestS1_AHostIsAdoptedByTheIncarnationItKnowsOrThatAnOperatorNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		seen   fsm.Epoch
		seenID string
		says   bool
		want   bool
	}{
		"a new host":                                   {fsm.Epoch{}, "", true, true},
		"the same incarnation":                         {fsm.Epoch{Incarnation: 3, Index: 1}, "id", true, true},
		"a higher one that an operator named":          {fsm.Epoch{Incarnation: 2, Index: 1}, "old", true, true},
		"a higher one that nobody named":               {fsm.Epoch{Incarnation: 2, Index: 1}, "old", false, false},
		"another one under the same counter":           {fsm.Epoch{Incarnation: 3, Index: 1}, "other", true, false},
		"the same counter where the id was never kept": {fsm.Epoch{Incarnation: 3, Index: 1}, "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				updates, err := assemble(&updateAssembler{actedEpoch: tc.seen, actedIncarnationID: []byte(tc.seenID)},
					welcomeMessage(3, "id"), desiredMessage(&sessionpb.DesiredState{Full: true, At: protoEpoch(3, 9), Adopted: tc.says}))
				require.NoError(t, err)
				require.Equal(t, tc.want, updates[0].Adopted)
			}
		})
	}
}

func TestALargeUpdateIsSplitAndReassembled(t *testing.T) {
	u := &desiredUpdate{cluster: fsm.Cluster{Incarnation: 1, Index: 7}, full: true, adopted: true}
	want := executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 7}, Full: true, FeatureLevel: 1, Adopted: true, IncarnationID: []byte("id")}
	for i := range 2*maxPerMessage + 1 {
		d := fsm.DesiredVolume{Volume: fsm.VolumeID(fmt.Sprintf("v%d", i)), Goal: fsm.GoalKeep}
		u.volumes, want.Volumes = append(u.volumes, d), append(want.Volumes, d)
	}
	u.volumesGone, want.VolumesGone = []fsm.VolumeID{"x"}, []fsm.VolumeID{"x"}
	for i := range maxPerMessage + 1 {
		d := fsm.DesiredSnapshot{Snapshot: fsm.SnapshotID(fmt.Sprintf("s%d", i)), Goal: fsm.SnapshotGoalTake}
		u.snapshots, want.Snapshots = append(u.snapshots, d), append(want.Snapshots, d)
	}
	u.snapshotsGone, want.SnapshotsGone = []fsm.SnapshotID{"y"}, []fsm.SnapshotID{"y"}
	messages := []*sessionpb.ToNode{welcomeMessage(1, "id")}
	for _, m := range u.messages() {
		messages = append(messages, desiredMessage(m))
	}
	require.Len(t, messages, 1+3+1+2+1)
	for range 2 {
		updates, err := assemble(&updateAssembler{}, messages...)
		require.NoError(t, err)
		require.Equal(t, []executor.Update{want}, updates)
	}
}
