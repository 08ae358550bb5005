package replication

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxQuestions is how many hosts' replicas are asked about at once for one call.
const maxQuestions = 16

// member is what is known of one volume of a relation.
type member struct {
	volume     fsm.VolumeID
	generation uint64
	protocol   fsmpb.Protocol
	host       *fsm.FencedHost // of the primary; nil: nobody can be asked

	health   fsm.ReplicationHealth
	message  string
	syncedAt time.Time // zero: not known
	lastSync fsm.SyncResult
}

// newMember is what the log has of a volume.
func newMember(state *fsm.State, v *fsm.Volume) *member {
	m := &member{volume: v.ID, health: fsm.ReplicationUnknown, message: "it is not replicated now"}
	status := state.VolumeReplicationStatus(v)
	if status == nil || v.Replication == nil {
		return m
	}
	m.generation, m.protocol = v.Replication.Generation, v.Replication.Protocol
	m.health, m.message = status.Health, status.Message
	m.syncedAt, m.lastSync = v.RelationMember.SyncedAt(), status.LastSync
	if len(status.Hosts) > 0 {
		m.host = &status.Hosts[0]
	}
	return m
}

// worsen takes another finding in, unless what is known is as bad.
func (m *member) worsen(health fsm.ReplicationHealth, message string) {
	if health > m.health {
		m.health, m.message = health, message
	}
}

// observe asks the hosts of all members. What they do not answer within the node timeout is not known.
func (r *relation) observe(ctx context.Context, s *Server) {
	ctx, cancel := context.WithTimeout(ctx, s.options.NodeTimeout)
	defer cancel()
	var asked sync.WaitGroup
	limit := make(chan struct{}, maxQuestions)
	for _, m := range r.members {
		limit <- struct{}{}
		asked.Go(func() {
			defer func() { <-limit }()
			m.observe(ctx, s)
		})
	}
	asked.Wait()
}

// observe asks the host of one member. The time of the question is taken: what its answer says was true after it.
func (m *member) observe(ctx context.Context, s *Server) {
	if m.host == nil {
		m.worsen(fsm.ReplicationUnknown, "no host of the primary has its replica")
		return
	}
	asked := s.now()
	seen, err := s.hosts.ReplicaNow(ctx, m.host.Node, m.volume)
	switch {
	case err != nil || ctx.Err() != nil:
		m.worsen(fsm.ReplicationUnknown, fmt.Sprintf("node %s did not say how it is", m.host.Node))
	case seen.Generation != m.generation:
		m.worsen(fsm.ReplicationUnknown, fmt.Sprintf("node %s does not know its last change yet", m.host.Node))
	case !isWhole(&seen):
		m.worsen(fsm.ReplicationDegraded, fmt.Sprintf("node %s does not see both replicas connected and up to date", m.host.Node))
	case m.health != fsm.ReplicationHealthy:
		// the log does not call both replicas up to date
	case m.protocol == fsmpb.Protocol_PROTOCOL_A && seen.Primary:
		// the kernel does not tell which acknowledged writes are under way to the peer
	default:
		m.syncedAt = asked
	}
}

// isWhole tells whether the host's kernel has its peer connected and calls both disks up to date.
func isWhole(seen *fsm.ReplicaObservation) bool {
	return seen.Connected() && seen.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE && seen.PeerDisk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE && seen.OutOfSync == 0
}
