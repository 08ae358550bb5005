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
)

type volumeFunc func(context.Context, fsm.VolumeID) (executor.VolumeFacts, error)

func (n *testHost) setVolumeFacts(f volumeFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.volumeFunc = f
}

func (n *testHost) volumeFacts(ctx context.Context, id fsm.VolumeID) (executor.VolumeFacts, error) {
	n.mu.Lock()
	fn := n.volumeFunc
	n.mu.Unlock()
	return fn(ctx, id)
}

func TestVolumesAreAskedAboutThroughWhicheverMemberHasTheSession(t *testing.T) {
	l := newTestCluster(t, 3)
	members := l.newMembers()
	n := l.startHost("n1", l.members[1])
	eventually(t, "the session is up", n.client.Connected)
	want := executor.VolumeFacts{AllocatedKnown: true, Allocated: 1 << 40, HeaderBackup: "11111111-2222-4333-8444-555555555555", HeaderBackupGeneration: 3}
	n.setVolumeFacts(func(_ context.Context, id fsm.VolumeID) (executor.VolumeFacts, error) {
		if id != "hf-1" {
			return executor.VolumeFacts{}, errors.New("another volume was asked for")
		}
		return want, nil
	})
	for _, m := range members {
		for range 2 {
			got, err := m.VolumeFacts(t.Context(), "n1", "hf-1")
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

func TestAFailedQuestionAboutAVolumeSaysWhy(t *testing.T) {
	l := newTestCluster(t, 2)
	members := l.newMembers()
	n := l.startHost("n1", l.members[1])
	eventually(t, "the session is up", n.client.Connected)
	ask := func(ctx context.Context, node fsm.NodeID) (err error) {
		for _, m := range members {
			if _, err = m.VolumeFacts(ctx, node, "hf-1"); err == nil {
				break
			}
		}
		return err
	}
	n.setVolumeFacts(func(context.Context, fsm.VolumeID) (executor.VolumeFacts, error) {
		return executor.VolumeFacts{}, fsm.Reject(fsm.NotFound, "it is not here")
	})
	var rejection *fsm.Rejection
	require.ErrorAs(t, ask(t.Context(), "n1"), &rejection)
	require.Equal(t, fsm.NotFound, rejection.Reason)
	n.setVolumeFacts(func(context.Context, fsm.VolumeID) (executor.VolumeFacts, error) {
		return executor.VolumeFacts{}, errors.New("the disk is on fire")
	})
	err := ask(t.Context(), "n1")
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "the disk is on fire")
	require.Equal(t, codes.Unavailable, status.Code(ask(t.Context(), "n7")), "no host of that name has a session")
	n.setVolumeFacts(func(ctx context.Context, _ fsm.VolumeID) (executor.VolumeFacts, error) {
		<-ctx.Done()
		return executor.VolumeFacts{}, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Error(t, ask(ctx, "n1"), "who asks waits no longer than it may")
	h := &hostSession{Client: &Client{}}
	require.Equal(t, uint32(fsm.Unsupported), h.volumeAnswer(t.Context(), &sessionpb.VolumeQuestion{}).GetReason(), "a host that does not answer them")
}

func TestOnlyControllersAskEachOtherAboutVolumes(t *testing.T) {
	l := newTestCluster(t, 1)
	p := &peerService{server: l.members[0].server}
	_, err := p.Volume(t.Context(), &sessionpb.VolumeRequest{NodeId: "n1", Question: &sessionpb.VolumeQuestion{Volume: "hf-1"}})
	require.Error(t, err)
}
