package replication

import (
	"context"
	"time"

	spec "github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/fsm"
)

// maxStatusMessage bounds status_message in bytes.
const maxStatusMessage = 128

// GetVolumeReplicationInfo is what the log has of the relation and what the hosts of its primary observe while the call
// waits (S56). It changes nothing. NOT_FOUND: the replicas were never equal.
func (s *Server) GetVolumeReplicationInfo(ctx context.Context, req *spec.GetVolumeReplicationInfoRequest) (*spec.GetVolumeReplicationInfoResponse, error) {
	c, err := s.begin(ctx, "look at", req, nil)
	if err != nil {
		return nil, answer(err)
	}
	r, err := s.readRelation(ctx, c)
	if err != nil {
		return nil, answer(err)
	}
	r.observe(ctx, s)
	r.checkUnchanged(s, c)
	resp, err := r.response()
	if err != nil {
		return nil, answer(err)
	}
	return resp, nil
}

// relation is what is known of a relation, by volume.
type relation struct {
	role    uint64
	members []*member
}

// readRelation reads what the log has. The details are those of the primary, which only that site can give.
func (s *Server) readRelation(ctx context.Context, c *call) (*relation, error) {
	r := &relation{}
	err := s.client.ReadState(ctx, func(state *fsm.State) error {
		status, rej := state.ReplicationStatus(c.source, c.replicationID)
		if rej != nil {
			return rej
		}
		if err := s.checkPrimary(c, status.Relation); err != nil {
			return err
		}
		if !status.EverSynced {
			return fsm.Reject(fsm.NotFound, "look at %s: its two sites have not been equal yet", c.name())
		}
		r.role = status.Relation.Role
		for _, v := range status.Volumes {
			r.members = append(r.members, newMember(state, v))
		}
		return nil
	})
	return r, err
}

// checkPrimary is nil where the site is primary.
func (s *Server) checkPrimary(c *call, r *fsm.Relation) error {
	switch {
	case r.Promoted && r.Primary == s.site():
		return nil
	case r.Move != nil && r.Move.To == s.site():
		return fsm.Reject(fsm.Busy, "look at %s: its role is still moving to site %s; retry", c.name(), r.Move.To)
	}
	return fsm.Reject(fsm.Precondition, "look at %s: site %s is not its primary", c.name(), s.site())
}

// checkUnchanged: what was observed is of the role and the generations that the log has still.
func (r *relation) checkUnchanged(s *Server, c *call) {
	err := s.client.View(func(state *fsm.State) error {
		for _, m := range r.members {
			if v, ok := state.Volume(m.volume); !ok || v.Replication == nil || v.Replication.Generation != m.generation || state.ReplicationRole(c.source) != r.role {
				m.worsen(fsm.ReplicationUnknown, "it changed while it was observed")
			}
		}
		return nil
	})
	for _, m := range r.members {
		if err != nil {
			m.worsen(fsm.ReplicationUnknown, "this controller has no state")
		}
	}
}

// response has the worst status, the oldest time, and sums.
func (r *relation) response() (*spec.GetVolumeReplicationInfoResponse, error) {
	health, message := fsm.ReplicationHealthy, "up to date at both sites"
	var oldest time.Time
	var duration time.Duration
	resp := &spec.GetVolumeReplicationInfoResponse{}
	for _, m := range r.members {
		if m.health > health {
			health, message = m.health, r.message(m)
		}
		if m.syncedAt.IsZero() {
			return nil, fsm.Reject(fsm.NotFound, "volume %s: nothing is known of its last synchronisation now", m.volume)
		}
		if oldest.IsZero() || m.syncedAt.Before(oldest) {
			oldest = m.syncedAt
		}
		resp.LastSyncBytes += max(0, m.lastSync.Bytes)
		duration += max(0, m.lastSync.Duration)
	}
	if len(r.members) == 0 {
		return nil, fsm.Reject(fsm.NotFound, "the volume group has no volumes")
	}
	if duration > 0 {
		resp.LastSyncDuration = durationpb.New(duration)
	}
	resp.LastSyncTime = timestamppb.New(oldest)
	resp.Status, resp.StatusMessage = statuses[health], fsm.Truncate(message, maxStatusMessage)
	return resp, nil
}

// message names the volume where it is one of several.
func (r *relation) message(m *member) string {
	if len(r.members) == 1 {
		return m.message
	}
	return string(m.volume) + ": " + m.message
}

var statuses = map[fsm.ReplicationHealth]spec.GetVolumeReplicationInfoResponse_Status{
	fsm.ReplicationHealthy:  spec.GetVolumeReplicationInfoResponse_HEALTHY,
	fsm.ReplicationDegraded: spec.GetVolumeReplicationInfoResponse_DEGRADED,
	fsm.ReplicationError:    spec.GetVolumeReplicationInfoResponse_ERROR,
	fsm.ReplicationUnknown:  spec.GetVolumeReplicationInfoResponse_UNKNOWN,
}
