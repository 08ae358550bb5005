package scenarios

import (
	"context"
	"fmt"
	"testing"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// replicate calls a site's replication service as the controllers of CSI-Addons do, each attempt at another of its
// controllers, until the answer is definite.
func (s *site) replicate(ctx context.Context, what string, call func(context.Context, replication.ControllerClient) error) error {
	return retryUntil(ctx, what+" through "+s.name, func(ctx context.Context) error {
		return call(ctx, s.replication[s.takeTurn()])
	})
}

// sourceOfVolume and sourceOfGroup are what is replicated.
func sourceOfVolume(id string) *replication.ReplicationSource {
	return &replication.ReplicationSource{Type: &replication.ReplicationSource_Volume{Volume: &replication.ReplicationSource_VolumeSource{VolumeId: id}}}
}

func sourceOfGroup(id string) *replication.ReplicationSource {
	return &replication.ReplicationSource{Type: &replication.ReplicationSource_Volumegroup{Volumegroup: &replication.ReplicationSource_VolumeGroupSource{VolumeGroupId: id}}}
}

// parametersOf are those of a site's class: each class names its own site and the other one.
func (r *relation) parametersOf(s *site) map[string]string {
	all := map[string]string{"site": s.name, "peerSite": r.other(s).name}
	for key, value := range r.parameters {
		all[key] = value
	}
	return all
}

func (r *relation) enable(ctx context.Context, s *site) error {
	return s.replicate(ctx, "enable", func(ctx context.Context, c replication.ControllerClient) error {
		_, err := c.EnableVolumeReplication(ctx, &replication.EnableVolumeReplicationRequest{ReplicationSource: r.source, Parameters: r.parametersOf(s)})
		return err
	})
}

func (r *relation) disable(ctx context.Context, s *site) error {
	return s.replicate(ctx, "disable", func(ctx context.Context, c replication.ControllerClient) error {
		_, err := c.DisableVolumeReplication(ctx, &replication.DisableVolumeReplicationRequest{ReplicationSource: r.source, Parameters: r.parametersOf(s)})
		return err
	})
}

func (r *relation) promote(ctx context.Context, s *site, force bool) error {
	return s.replicate(ctx, fmt.Sprintf("promote, force %t,", force), func(ctx context.Context, c replication.ControllerClient) error {
		return r.promoteOnce(ctx, c, s, force)
	})
}

func (r *relation) promoteOnce(ctx context.Context, c replication.ControllerClient, s *site, force bool) error {
	_, err := c.PromoteVolume(ctx, &replication.PromoteVolumeRequest{ReplicationSource: r.source, Force: force, Parameters: r.parametersOf(s)})
	return err
}

func (r *relation) demote(ctx context.Context, s *site) error {
	return s.replicate(ctx, "demote", func(ctx context.Context, c replication.ControllerClient) error {
		return r.demoteOnce(ctx, c, s)
	})
}

func (r *relation) demoteOnce(ctx context.Context, c replication.ControllerClient, s *site) error {
	_, err := c.DemoteVolume(ctx, &replication.DemoteVolumeRequest{ReplicationSource: r.source, Parameters: r.parametersOf(s)})
	return err
}

// resync answers whether it is ready.
func (r *relation) resync(ctx context.Context, s *site, force bool) (ready bool, err error) {
	err = s.replicate(ctx, fmt.Sprintf("resync, force %t,", force), func(ctx context.Context, c replication.ControllerClient) error {
		ready, err = r.resyncOnce(ctx, c, s, force)
		return err
	})
	return ready, err
}

func (r *relation) resyncOnce(ctx context.Context, c replication.ControllerClient, s *site, force bool) (ready bool, err error) {
	resp, err := c.ResyncVolume(ctx, &replication.ResyncVolumeRequest{ReplicationSource: r.source, Force: force, Parameters: r.parametersOf(s)})
	return resp.GetReady(), err
}

func (r *relation) info(ctx context.Context, s *site) (found *replication.GetVolumeReplicationInfoResponse, err error) {
	err = s.replicate(ctx, "ask for the replication", func(ctx context.Context, c replication.ControllerClient) error {
		found, err = c.GetVolumeReplicationInfo(ctx, &replication.GetVolumeReplicationInfoRequest{ReplicationSource: r.source})
		return err
	})
	return found, err
}

// awaitReady repeats a resynchronisation until it is ready, as the controller of CSI-Addons does.
func (r *relation) awaitReady(t *testing.T, s *site, force bool) {
	t.Helper()
	eventually(t, resyncTimeout, "what "+s.name+" has is ready", func(ctx context.Context) error {
		ready, err := r.resync(ctx, s, force)
		if err == nil && !ready {
			err = fmt.Errorf("it is not ready")
		}
		return err
	})
}

// requireOnePromotion requires that one attempt to promote ends with a code, and logs what it said.
func (r *relation) requireRefused(t *testing.T, s *site, force bool, code codes.Code) {
	t.Helper()
	err := s.answered(t, func(ctx context.Context, turn uint64) error { return r.promoteOnce(ctx, s.replication[turn], s, force) })
	t.Logf("promote at %s, force %t: %v", s.name, force, err)
	require.Equal(t, code, status.Code(err), "%v", err)
}

// answered is what a site answers to a call, which is made again for as long as nobody there can be asked: its
// controllers have just started.
func (s *site) answered(t *testing.T, call func(ctx context.Context, turn uint64) error) (err error) {
	t.Helper()
	eventually(t, timeout, s.name+" answers", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if err = call(ctx, s.takeTurn()); status.Code(err) == codes.Unavailable {
			return err
		}
		return nil
	})
	return err
}

// awaitNeedsForce repeats a promotion until the answer is that it needs force: meanwhile it is repeated (S30).
func (r *relation) awaitNeedsForce(t *testing.T, s *site) {
	t.Helper()
	err := r.promote(t.Context(), s, false)
	t.Logf("promote at %s without force: %v", s.name, err)
	require.Error(t, err)
	require.ErrorContains(t, err, codes.FailedPrecondition.String())
}

// awaitStatus waits until a site says so of the replication.
func (r *relation) awaitStatus(t *testing.T, s *site, want replication.GetVolumeReplicationInfoResponse_Status) {
	t.Helper()
	eventually(t, timeout, s.name+" says "+want.String(), func(ctx context.Context) error {
		found, err := r.info(ctx, s)
		if err == nil && found.GetStatus() != want {
			err = fmt.Errorf("it says %s: %s", found.GetStatus(), found.GetStatusMessage())
		}
		return err
	})
}
