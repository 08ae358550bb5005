package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

type mapFunc func(ctx context.Context, base, target fsm.SnapshotID, from int64, max int) (executor.MapPage, error)

func (n *testHost) setMap(m mapFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.readMapFunc = m
}

func TestMapsAreAskedThroughWhicheverMemberHasTheSession(t *testing.T) {
	l := newTestCluster(t, 3)
	members := l.newMembers()
	n := l.startHost("n1", l.members[1])
	eventually(t, "the session is up", n.client.Connected)
	all := []executor.Extent{{Offset: 0, Length: 4096}, {Offset: 8192, Length: 4096}, {Offset: 1 << 40, Length: 1 << 30}}
	n.setMap(func(_ context.Context, base, target fsm.SnapshotID, from int64, max int) (executor.MapPage, error) {
		if base != "hs-base" || target != "hs-target" {
			return executor.MapPage{}, errors.New("other snapshots were asked for")
		}
		rest := all
		for len(rest) > 0 && rest[0].Offset < from {
			rest = rest[1:]
		}
		return executor.MapPage{Extents: rest[:min(max, len(rest))], More: len(rest) > max}, nil
	})
	for _, m := range members {
		for range 2 {
			got, err := m.Map(t.Context(), "n1", "hs-base", "hs-target", 0, 2)
			require.NoError(t, err)
			require.Equal(t, all[:2], got.Extents)
			require.True(t, got.More)
			got, err = m.Map(t.Context(), "n1", "hs-base", "hs-target", 8193, 2)
			require.NoError(t, err)
			require.Equal(t, all[2:], got.Extents)
			require.False(t, got.More)
		}
	}
	t.Run("a host that compares for long says how far it is", func(t *testing.T) {
		n.setMap(func(_ context.Context, _, _ fsm.SnapshotID, from int64, _ int) (executor.MapPage, error) {
			return executor.MapPage{More: true, NextOffset: from + 1<<40}, nil
		})
		for _, m := range members {
			got, err := m.Map(t.Context(), "n1", "hs-base", "hs-target", 5, 2)
			require.NoError(t, err)
			require.Equal(t, executor.MapPage{Extents: got.Extents, More: true, NextOffset: 5 + 1<<40}, got)
			require.Empty(t, got.Extents)
		}
	})
	t.Run("a page is never larger than a message", func(t *testing.T) {
		for _, asked := range []int{0, -1, maxMapExtents + 1} {
			n.setMap(func(_ context.Context, _, _ fsm.SnapshotID, _ int64, max int) (executor.MapPage, error) {
				all := make([]executor.Extent, max)
				for i := range all {
					all[i] = executor.Extent{Offset: 1 << 62, Length: 1 << 61}
				}
				return executor.MapPage{Extents: all, More: true}, nil
			})
			got, err := members[0].Map(t.Context(), "n1", "", "hs-target", 0, asked)
			require.NoError(t, err)
			require.Len(t, got.Extents, maxMapExtents)
			require.True(t, got.More)
		}
	})
}

func TestAFailedMapSaysWhy(t *testing.T) {
	l := newTestCluster(t, 2)
	members := l.newMembers()
	n := l.startHost("n1", l.members[1])
	eventually(t, "the session is up", n.client.Connected)
	ask := func(ctx context.Context, node fsm.NodeID) error {
		for range 2 {
			for _, m := range members {
				if _, err := m.Map(ctx, node, "", "hs-target", 0, 1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	t.Run("a refusal keeps its reason", func(t *testing.T) {
		n.setMap(func(context.Context, fsm.SnapshotID, fsm.SnapshotID, int64, int) (executor.MapPage, error) {
			return executor.MapPage{}, fsm.Reject(fsm.Precondition, "the two are of different volumes")
		})
		var rejection *fsm.Rejection
		require.ErrorAs(t, ask(t.Context(), "n1"), &rejection)
		require.Equal(t, fsm.Precondition, rejection.Reason)
		require.ErrorContains(t, rejection, "of different volumes")
	})
	t.Run("a failure of the host", func(t *testing.T) {
		n.setMap(func(context.Context, fsm.SnapshotID, fsm.SnapshotID, int64, int) (executor.MapPage, error) {
			return executor.MapPage{}, errors.New("the disk is on fire")
		})
		err := ask(t.Context(), "n1")
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "n1 could not map its blocks: the disk is on fire")
	})
	t.Run("a host without block maps", func(t *testing.T) {
		h := &hostSession{Client: &Client{}}
		require.Equal(t, uint32(fsm.Unsupported), h.mapAnswer(t.Context(), &sessionpb.MapQuestion{}).GetReason())
	})
	t.Run("a host without a session", func(t *testing.T) {
		err := ask(t.Context(), "n9")
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, ErrNoSession.Error())
	})
	t.Run("a host that does not answer in time", func(t *testing.T) {
		block := make(chan struct{})
		defer close(block)
		n.setMap(func(context.Context, fsm.SnapshotID, fsm.SnapshotID, int64, int) (executor.MapPage, error) {
			<-block
			return executor.MapPage{}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.Error(t, ask(ctx, "n1"))
	})
	t.Run("only controllers ask each other", func(t *testing.T) {
		client := sessionpb.NewPeersClient(l.dial(l.members[1].peers.addr, l.credentials(pki.Node, "n1")))
		_, err := client.Map(t.Context(), &sessionpb.MapRequest{NodeId: "n1"})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
	})
}

const snapshotID = "hs-00000000-0000-0000-0000-000000000001"

func TestASessionSendsDesiredSnapshots(t *testing.T) {
	l := newTestCluster(t, 1)
	m := l.members[0]
	w := l.openSession(m, l.credentials(pki.Node, "n1"), &sessionpb.Hello{Register: register("n1")})
	w.nextVolumes()
	l.create(volumeID, "v1")
	w.nextVolumes()
	l.reportFromN1(&fsmpb.Observation{VolumeId: volumeID, Sequence: 1, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	w.nextVolumes()

	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_CreateSnapshot{CreateSnapshot: &fsmpb.CreateSnapshot{
		SnapshotId: snapshotID, Name: "s1", SourceVolumeId: volumeID, Fingerprint: []byte("f"),
	}}})
	asked := w.nextSnapshots()
	require.False(t, asked.GetFull())
	require.Equal(t, snapshotID, asked.GetSnapshots()[0].GetSnapshot())
	require.Equal(t, volumeID, asked.GetSnapshots()[0].GetSource())
	require.Equal(t, uint32(fsm.SnapshotGoalTake), asked.GetSnapshots()[0].GetGoal())

	m.simulateRestore()
	again := w.nextSnapshots()
	require.True(t, again.GetFull(), "after a restore the full desired state is sent, with snapshots")
	require.Len(t, again.GetSnapshots(), 1)

	l.reportFromN1(&fsmpb.Observation{SnapshotId: snapshotID, VolumeId: volumeID, Sequence: 1, Fact: &fsmpb.Observation_SnapshotCut{
		SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: 1 << 30, CutUnixNano: 1},
	}})
	require.Equal(t, uint32(fsm.SnapshotGoalKeep), w.nextSnapshots().GetSnapshots()[0].GetGoal())
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_DeleteSnapshot{DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: snapshotID}}})
	require.Equal(t, uint32(fsm.SnapshotGoalRemove), w.nextSnapshots().GetSnapshots()[0].GetGoal())
	l.reportFromN1(&fsmpb.Observation{SnapshotId: snapshotID, VolumeId: volumeID, Sequence: 2, Fact: &fsmpb.Observation_SnapshotGone{SnapshotGone: &fsmpb.SnapshotGone{}}})
	require.Equal(t, []string{snapshotID}, w.nextSnapshots().GetSnapshotsGone())
}

func (l *testCluster) reportFromN1(o *fsmpb.Observation) {
	l.t.Helper()
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{
		NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Observations: []*fsmpb.Observation{o},
	}}})
}

// nextSnapshots are the next message with snapshots in it.
func (w *rawSession) nextSnapshots() *sessionpb.DesiredState {
	w.t.Helper()
	for {
		m, err := w.stream.Recv()
		require.NoError(w.t, err)
		if x := m.GetDesired(); len(x.GetSnapshots())+len(x.GetSnapshotsGone()) > 0 {
			return x
		}
	}
}
