package fsm

import (
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// How far hosts are with what a call on a relation decided, for callers that wait; and what is known of it.

// awaited finds the relation again. Busy: it ended, or the role moved elsewhere meanwhile.
func (s *State) awaited(source *fsmpb.ReplicationSource, action string) (*replicationSource, *Rejection) {
	x, rej := s.replicationSource(source, "")
	switch {
	case rej != nil:
		return nil, rej
	case x.relation == nil:
		return nil, Reject(Busy, "%s %s: its replication was disabled meanwhile; retry", action, x.name())
	}
	return x, nil
}

// ReplicationRole is the role index that a call on the source names (S39); 0 where it is not replicated.
func (s *State) ReplicationRole(source *fsmpb.ReplicationSource) uint64 {
	x, rej := s.replicationSource(source, "")
	if rej != nil || x.relation == nil {
		return 0
	}
	return x.relation.Role
}

// EnableHolds tells whether the replication that a call enabled has begun: every member's device was made, and its
// content is being copied or is equal at both sites.
func (s *State) EnableHolds(source *fsmpb.ReplicationSource) (done bool, waitsFor string, rej *Rejection) {
	x, rej := s.awaited(source, "enable replication of")
	if rej != nil {
		return false, "", rej
	}
	for _, v := range x.members {
		switch c := v.converting(); {
		case c != nil && c.Restored:
			return false, fmt.Sprintf("volume %s: the log was restored to the middle of its conversion, which goes on when both hosts are connected", v.ID), nil
		case c != nil && c.Undoing:
			return false, "", Reject(Busy, "enable replication of volume %s: %s; retry", v.ID, c.Reason)
		case c != nil || v.isAddingReplica():
			return false, fmt.Sprintf("volume %s: its second replica is being made%s", v.ID, v.operationTrouble(OpReplicaChange)), nil
		}
	}
	return true, "", nil
}

// operationTrouble is the last error of an operation, for people; empty where no step failed.
func (v *Volume) operationTrouble(kind OperationKind) string {
	if op := v.OperationOf(kind); op.stepFailed() {
		return ": " + op.LastError
	}
	return ""
}

// PromoteHolds tells whether the site has the role, and nobody at the other one can write beside it (S42).
func (s *State) PromoteHolds(source *fsmpb.ReplicationSource, site Site) (done bool, waitsFor string, rej *Rejection) {
	x, rej := s.awaited(source, "promote")
	if rej != nil {
		return false, "", rej
	}
	r := x.relation
	if !r.isPrimary(site) && (r.Move == nil || r.Move.To != site) {
		return false, "", Reject(Busy, "promote %s at site %s: the role moved meanwhile; retry", x.name(), site)
	}
	for _, v := range x.members {
		switch {
		case v.isReverting():
			return false, fmt.Sprintf("volume %s: its replica is being reverted to kept copy %s", v.ID, v.Replication.Revert.Snapshot), nil
		case s.isForcedInPart(v, site):
			return false, fmt.Sprintf("volume %s: a part of its replica had been overwritten when it was promoted: promote it by force again, and it goes back to what was kept", v.ID), nil
		case !s.isSiteCutOff(v, r.other(site)):
			return false, fmt.Sprintf("volume %s: it is not disconnected from site %s: %s", v.ID, r.other(site), s.takeoverWaitsFor(v)), nil
		}
	}
	if !r.isPrimary(site) {
		return false, "its role is moving", nil
	}
	return true, "", nil
}

// DemoteHolds tells whether no host of the site is primary of any of the volumes, nor owes the end of a use.
func (s *State) DemoteHolds(source *fsmpb.ReplicationSource, site Site) (done bool, waitsFor string, rej *Rejection) {
	x, rej := s.awaited(source, "demote")
	switch {
	case rej != nil:
		return false, "", rej
	case x.relation.isPrimary(site):
		return false, "", Reject(Busy, "demote %s at site %s: it was promoted meanwhile; retry", x.name(), site)
	}
	for _, v := range x.members {
		if why := s.stillUsedAt(v, site); why != "" {
			return false, why, nil
		}
	}
	return true, "", nil
}

// stillUsedAt says what is left of a use of the volume at a site; empty where nothing is.
func (s *State) stillUsedAt(v *Volume, site Site) string {
	for _, t := range v.Teardowns {
		if s.siteOf(t.Node) == site {
			return fmt.Sprintf("volume %s: node %s has not ended its use of it%s", v.ID, t.Node, v.operationTrouble(OpTeardown))
		}
	}
	if p := s.publicationAt(v, site); p != nil {
		return fmt.Sprintf("volume %s: it is published to node %s", v.ID, p.Node)
	}
	if l := s.replicaAt(v, site); l != nil && s.mayBePrimary(v, l.Host) {
		return fmt.Sprintf("volume %s: node %s has not said that it is not primary any more", v.ID, l.Node)
	}
	return ""
}

// ClaimEndHolds tells whether nothing of the volumes is published, staged or owed at a site whose claim ended (S37).
func (s *State) ClaimEndHolds(source *fsmpb.ReplicationSource, site Site) (done bool, waitsFor string, rej *Rejection) {
	x, rej := s.replicationSource(source, "")
	if rej != nil {
		return true, "", nil // it is gone
	}
	for _, v := range x.members {
		if r := s.RelationOf(v); r == nil || r.isPrimary(site) {
			continue
		}
		if why := s.stillUsedAt(v, site); why != "" {
			return false, why, nil
		}
	}
	return true, "", nil
}

// ResyncReady tells whether each member's replicas are both up to date in the current generation (S51). NoCapacity:
// what the site has is not kept, so that it is not discarded (S48).
func (s *State) ResyncReady(source *fsmpb.ReplicationSource, site Site) (ready bool, waitsFor string, rej *Rejection) {
	x, rej := s.awaited(source, "resync")
	if rej != nil {
		return false, "", rej
	}
	for _, v := range x.members {
		if s.waitsToBeKept(v, site) {
			return false, "", Reject(NoCapacity, "resync volume %s at site %s: %s", v.ID, site, s.replicaAt(v, site).NotKeptReason)
		}
		if !s.isBothUpToDate(v) && !plantedbug.Is(plantedbug.ReadyTooEarly) {
			return false, s.resyncWaitsFor(v, site), nil
		}
	}
	return true, "", nil
}

// resyncWaitsFor says what keeps a volume's replicas from being equal.
func (s *State) resyncWaitsFor(v *Volume, site Site) string {
	if v.isApart(site) {
		return fmt.Sprintf("volume %s: what site %s has was given up by force, and is discarded by a resynchronisation with force only", v.ID, site)
	}
	if c := s.ReplicationCondition(v); c.Abnormal {
		return fmt.Sprintf("volume %s: %s", v.ID, c.Message)
	}
	return fmt.Sprintf("volume %s: its replicas were not seen up to date together", v.ID)
}

// isBothUpToDate: both replicas are recorded as up to date, and a host observed that in the current generation (S10).
func (s *State) isBothUpToDate(v *Volume) bool {
	active := v.ActiveReplicas()
	if len(active) < MaxReplicas || !allUpToDate(active) || v.Replication.InitialSyncIndex == 0 {
		return false
	}
	for _, l := range active {
		if v.Replication.seesBothUpToDate(l) {
			return true
		}
	}
	return false
}

// ReplicationHealth is the state of a relation, as the log has it.
type ReplicationHealth uint8

const (
	// ReplicationHealthy: every member is up to date at both sites.
	ReplicationHealthy ReplicationHealth = iota + 1
	// ReplicationDegraded: one is being synchronised, or lacks writes at one site.
	ReplicationDegraded
	// ReplicationUnknown: the primary's host cannot be asked.
	ReplicationUnknown
	// ReplicationError: somebody has to act. It is the worst, whatever else is not known (S45).
	ReplicationError
)

var replicationHealthNames = [...]string{ReplicationHealthy: "healthy", ReplicationDegraded: "degraded", ReplicationError: "error", ReplicationUnknown: "unknown"}

// String is the state's name: healthy, degraded, error or unknown.
func (h ReplicationHealth) String() string {
	if h == 0 || int(h) >= len(replicationHealthNames) {
		return replicationHealthNames[ReplicationUnknown]
	}
	return replicationHealthNames[h]
}

// ReplicationStatus is what the log knows of a relation, or of one of its volumes.
type ReplicationStatus struct {
	Relation *Relation
	Volumes  []*Volume
	Health   ReplicationHealth
	Message  string
	// Hosts are those whose observation says whether it is so still, by volume in order; empty where nobody can be
	// asked.
	Hosts []FencedHost
	// LastSync has the oldest end, and sums of bytes and durations, of the last resynchronisations; zero: none ended.
	LastSync SyncResult
	// EverSynced: every member was equal at both sites once.
	EverSynced bool
}

// ReplicationStatus is what the log knows of the source's relation; NotReplicated where it has none.
func (s *State) ReplicationStatus(source *fsmpb.ReplicationSource, replicationID string) (*ReplicationStatus, *Rejection) {
	x, rej := s.replicationSource(source, replicationID)
	switch {
	case rej != nil:
		return nil, rej
	case x.relation == nil:
		return nil, Reject(NotReplicated, "%s is not replicated between sites", x.name())
	}
	status := &ReplicationStatus{Relation: x.relation, Volumes: x.members, Health: ReplicationHealthy, EverSynced: true}
	for _, v := range x.members {
		status.add(s, v)
	}
	return status, nil
}

// VolumeReplicationStatus is ReplicationStatus of one volume of a relation; nil where it is in none.
func (s *State) VolumeReplicationStatus(v *Volume) *ReplicationStatus {
	relation := s.RelationOf(v)
	if relation == nil {
		return nil
	}
	status := &ReplicationStatus{Relation: relation, Volumes: []*Volume{v}, Health: ReplicationHealthy, EverSynced: true}
	status.add(s, v)
	return status
}

func (t *ReplicationStatus) add(s *State, v *Volume) {
	health, message := s.replicationHealth(t.Relation, v)
	if health > t.Health {
		t.Health, t.Message = health, message
	}
	local := s.replicaAt(v, t.Relation.Primary)
	if local != nil {
		t.Hosts = append(t.Hosts, FencedHost{local.Node, local.Host})
	}
	member := v.RelationMember
	peer := s.replicaAt(v, t.Relation.other(t.Relation.Primary))
	t.EverSynced = t.EverSynced && member != nil && local != nil && peer != nil && local.Synced && peer.Synced
	if member == nil || member.LastSync.Ended.IsZero() {
		return
	}
	if t.LastSync.Ended.IsZero() || member.LastSync.Ended.Before(t.LastSync.Ended) {
		t.LastSync.Ended = member.LastSync.Ended
	}
	t.LastSync.Bytes += member.LastSync.Bytes
	t.LastSync.Duration += max(time.Duration(0), member.LastSync.Duration)
}

// replicationHealth is the worst that the log knows of a volume.
func (s *State) replicationHealth(r *Relation, v *Volume) (ReplicationHealth, string) {
	for _, o := range r.Ousted {
		if s.owesTeardownAt(v, o.Site) {
			return ReplicationError, fmt.Sprintf("site %s lost the role and may still acknowledge writes, which are lost", o.Site)
		}
	}
	if m := v.RelationMember; m != nil && m.Apart {
		return ReplicationError, fmt.Sprintf("site %s was given up by force and waits for a forced resync", m.ApartAt)
	}
	for _, l := range v.ActiveReplicas() {
		if outOfSyncReason(v, l) != "" {
			return ReplicationError, "a verification found differences between the replicas"
		}
	}
	if local := s.replicaAt(v, r.Primary); r.Promoted && local != nil {
		if n, ok := s.nodeOfReplica(local); !ok || !n.canBeAsked() {
			return ReplicationUnknown, fmt.Sprintf("node %s of the primary cannot be asked", local.Node)
		}
		if s.isCutAgainstWish(v, local) {
			return ReplicationError, fmt.Sprintf("node %s does not connect to its peer, against what is wanted", local.Node)
		}
	}
	if !s.isBothUpToDate(v) && !plantedbug.Is(plantedbug.HealthyWhileBehind) {
		message := s.ReplicationCondition(v).Message
		if message == "" {
			message = "its replicas were not seen up to date together"
		}
		return ReplicationDegraded, message
	}
	return ReplicationHealthy, "up to date at both sites"
}

// isCutAgainstWish: the kernel stands alone although the log wants it connected to a peer that can be reached.
func (s *State) isCutAgainstWish(v *Volume, local *Replica) bool {
	peer := v.PeerReplica(local.Host)
	x := &local.Observed
	return peer != nil && s.replicaReachable(peer) && s.shouldConnect(v, local, peer) && s.shouldConnect(v, peer, local) && !peer.Outdated &&
		x.Generation == v.Replication.Generation && x.Connection == fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
}
