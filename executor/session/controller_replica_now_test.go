package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

type replicaFunc func(context.Context, fsm.VolumeID) (fsm.ReplicaObservation, error)

func (n *testHost) setReplicaNow(f replicaFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replicaFunc = f
}

func (n *testHost) replicaNow(ctx context.Context, id fsm.VolumeID) (fsm.ReplicaObservation, error) {
	n.mu.Lock()
	fn := n.replicaFunc
	n.mu.Unlock()
	return fn(ctx, id)
}

// S56: the primary's host is asked at each call, through whichever member has its session.
func TestS56_AHostIsAskedHowItsReplicaIsNow(t *testing.T) {
	l := newTestCluster(t, 3)
	members := l.newMembers()
	n := l.startHost("n1", l.members[1])
	eventually(t, "the session is up", n.client.Connected)
	want := fsm.ReplicaObservation{Boot: "boot", Attachment: 3, Primary: true, Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, Generation: 7, OutOfSync: 4096}
	n.setReplicaNow(func(_ context.Context, id fsm.VolumeID) (fsm.ReplicaObservation, error) {
		if id != "hf-1" {
			return fsm.ReplicaObservation{}, errors.New("another volume was asked for")
		}
		want.UUID++
		return want, nil
	})
	for _, m := range members {
		for range 2 {
			got, err := m.ReplicaNow(t.Context(), "n1", "hf-1")
			require.NoError(t, err)
			require.Equal(t, want, got, "nothing is remembered")
		}
	}
}

func TestAFailedQuestionAboutAReplicaSaysWhy(t *testing.T) {
	l := newTestCluster(t, 1)
	members := l.newMembers()
	n := l.startHost("n1", l.members[0])
	eventually(t, "the session is up", n.client.Connected)
	n.setReplicaNow(func(context.Context, fsm.VolumeID) (fsm.ReplicaObservation, error) {
		return fsm.ReplicaObservation{}, fsm.Reject(fsm.NotFound, "it is not here")
	})
	_, err := members[0].ReplicaNow(t.Context(), "n1", "hf-1")
	var rejection *fsm.Rejection
	require.ErrorAs(t, err, &rejection)
	require.Equal(t, fsm.NotFound, rejection.Reason)
	n.setReplicaNow(func(context.Context, fsm.VolumeID) (fsm.ReplicaObservation, error) {
		return fsm.ReplicaObservation{}, errors.New("the kernel is on fire")
	})
	_, err = members[0].ReplicaNow(t.Context(), "n1", "hf-1")
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "the kernel is on fire")
	_, err = members[0].ReplicaNow(t.Context(), "n7", "hf-1")
	require.Equal(t, codes.Unavailable, status.Code(err), "no host of that name has a session")
	n.setReplicaNow(func(ctx context.Context, _ fsm.VolumeID) (fsm.ReplicaObservation, error) {
		<-ctx.Done()
		return fsm.ReplicaObservation{}, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = members[0].ReplicaNow(ctx, "n1", "hf-1")
	require.Error(t, err, "who asks waits no longer than it may")
	h := &hostSession{Client: &Client{}}
	require.Equal(t, uint32(fsm.Unsupported), h.replicaAnswer(t.Context(), &sessionpb.ReplicaQuestion{}).GetReason(), "a host that does not answer them")
	_, err = (&peerService{server: l.members[0].server}).Replica(t.Context(), &sessionpb.ReplicaRequest{NodeId: "n1"})
	require.Error(t, err, "only controllers ask each other")
}
