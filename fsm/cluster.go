package fsm

import (
	"bytes"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// incarnationIDLen is the length of an incarnation's random id in bytes.
const incarnationIDLen = 16

// hashLen is the length of a state's hash in bytes.
const hashLen = 32

// applyBootstrap begins a cluster. It is the first entry; repeated, it changes nothing.
func applyBootstrap(s *State, m Meta, c *fsmpb.Bootstrap) (*fsmpb.Outcome, *Rejection) {
	if rej := checkID("cluster id", c.GetClusterId()); rej != nil {
		return nil, rej
	}
	switch s.cluster.ID {
	case c.GetClusterId():
		return &fsmpb.Outcome{}, nil
	case "":
	default:
		return nil, Reject(Incompatible, "bootstrap cluster %s: this log belongs to cluster %s", c.GetClusterId(), s.cluster.ID)
	}
	if n := len(c.GetIncarnationId()); n != incarnationIDLen {
		return nil, Reject(Invalid, "bootstrap: the incarnation id has %d bytes, not %d", n, incarnationIDLen)
	}
	level := c.GetFeatureLevel()
	if level == 0 || level > m.Level {
		return nil, Reject(Unsupported, "bootstrap at feature level %d: this build serves 1 to %d", level, m.Level)
	}
	s.cluster.ID, s.cluster.FeatureLevel = c.GetClusterId(), level
	s.cluster.Incarnation, s.cluster.IncarnationID = 1, c.GetIncarnationId()
	s.writes++
	return &fsmpb.Outcome{}, nil
}

// applySetFeatureLevel raises the cluster's feature level. It is never lowered: a build of a
// lower level cannot read what a higher one wrote. The command's envelope carries the level,
// so that a member that does not understand it faults.
func applySetFeatureLevel(s *State, m Meta, c *fsmpb.SetFeatureLevel) (*fsmpb.Outcome, *Rejection) {
	level := c.GetLevel()
	switch {
	case level == s.cluster.FeatureLevel:
		return &fsmpb.Outcome{}, nil
	case level < s.cluster.FeatureLevel:
		return nil, Reject(Precondition, "the feature level is %d and cannot be lowered to %d", s.cluster.FeatureLevel, level)
	case level > m.Level:
		return nil, Reject(Unsupported, "feature level %d is above %d, the highest that this build understands", level, m.Level)
	}
	for n := range s.Nodes() {
		if n.State != NodeLost && n.FeatureLevel < level {
			return nil, Reject(Precondition, "node %s understands feature level %d, not %d: upgrade it first", n.ID, n.FeatureLevel, level)
		}
	}
	s.cluster.FeatureLevel = level
	s.writes++
	for n := range s.Nodes() {
		s.changes = append(s.changes, Change{Node: n.ID}) // its desired state may differ at this level
	}
	return &fsmpb.Outcome{}, nil
}

// applyCheckpoint records the hash that a majority agrees on (S23).
func applyCheckpoint(s *State, m Meta, c *fsmpb.Checkpoint) (*fsmpb.Outcome, *Rejection) {
	last := s.cluster.Checkpoint
	switch {
	case len(c.GetHash()) != hashLen:
		return nil, Reject(Invalid, "checkpoint: the hash has %d bytes, not %d", len(c.GetHash()), hashLen)
	case c.GetIndex() == 0 || c.GetIndex() >= m.Index:
		return nil, Reject(Invalid, "checkpoint of index %d: it is not of an entry before this one", c.GetIndex())
	case c.GetIndex() < last.Index:
		return nil, Reject(Precondition, "checkpoint of index %d: there is one of index %d already", c.GetIndex(), last.Index)
	case c.GetIndex() == last.Index && !bytes.Equal(c.GetHash(), last.Hash):
		return nil, Reject(Incompatible, "checkpoint of index %d: another hash is recorded for it", c.GetIndex())
	}
	s.cluster.Checkpoint = Checkpoint{Index: c.GetIndex(), Hash: c.GetHash()}
	s.writes++
	return &fsmpb.Outcome{}, nil
}

// applyReplaceIncarnation begins a new life of the cluster after a restore or a
// recovery (S1). Every host is in adoption mode from here, until an operator names
// this incarnation to it. What is recorded of replicas may be older than what the lost part of
// the log had, so it is reset.
func applyReplaceIncarnation(s *State, m Meta, c *fsmpb.ReplaceIncarnation) (*fsmpb.Outcome, *Rejection) {
	if n := len(c.GetIncarnationId()); n != incarnationIDLen {
		return nil, Reject(Invalid, "replace the incarnation: its id has %d bytes, not %d", n, incarnationIDLen)
	}
	if at := s.cluster.Incarnation; c.GetCounter() == at && bytes.Equal(c.GetIncarnationId(), s.cluster.IncarnationID) {
		return &fsmpb.Outcome{}, nil
	} else if c.GetCounter() <= at {
		return nil, Reject(Precondition, "replace the incarnation by %d: the cluster is at %d already", c.GetCounter(), at)
	}
	for n := range s.Nodes() {
		if c.GetCounter() <= n.Incarnation {
			return nil, Reject(Precondition, "replace the incarnation by %d: node %s has met %d", c.GetCounter(), n.ID, n.Incarnation)
		}
	}
	s.cluster.Incarnation, s.cluster.IncarnationID = c.GetCounter(), c.GetIncarnationId()
	s.writes++
	s.resetReplicaObservations()
	// One that waits here may have been used or revoked in what was lost of the log.
	s.revokeJoinTokens(m, func(*JoinToken) bool { return true })
	for n := range s.Nodes() {
		s.changes = append(s.changes, Change{Node: n.ID})
		s.abortGroupsOn(n.ID, Busy, "the cluster was restored: its hosts must be adopted first")
	}
	return &fsmpb.Outcome{}, nil
}
