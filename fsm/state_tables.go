package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// storedVolume is a volume in its table, with the hash of what it holds.
type storedVolume struct {
	Volume
	hash sum256
}

// volumeItem is a row of the table of volumes.
type volumeItem struct {
	key    uuid
	stored *storedVolume
}

func (e volumeItem) before(o volumeItem) bool { return e.key.before(o.key) }

// storedNode is a node in its table, with the hash of what it holds.
type storedNode struct {
	Node
	hash sum256
}

// putVolume is the only way a volume enters the state or changes.
func (s *State) putVolume(v Volume) {
	s.sweepPredecessors(&v)
	v.Modified = s.cluster.Index
	inSyncAgain := s.level2() && v.allInSync() && !s.wasAllInSync(v.ID)
	if v.isDeleting() {
		s.leaveGroup(v.ID) // as when its create failed
	}
	s.writeVolume(v)
	if inSyncAgain {
		s.supersedeKeptCopies(v.ID)
		s.endAhead(v.ID)
	}
}

// wasAllInSync tells whether all replicas of the volume were up to date until now.
func (s *State) wasAllInSync(id VolumeID) bool {
	v, ok := s.Volume(id)
	return ok && v.allInSync()
}

// writeVolume is putVolume without a new Modified: for a change decided at an earlier index.
func (s *State) writeVolume(v Volume) {
	var nodes [2][4]NodeID
	c := volumeChange{nodesBefore: nodes[0][:0], nodesAfter: nodes[1][:0]}
	s.storeVolume(&c, v)
	s.announceVolume(&c)
	s.writes++
}

// storeVolume keeps table, index and hash together.
func (s *State) storeVolume(c *volumeChange, v Volume) {
	c.key, _ = v.ID.uuid()
	c.after = &storedVolume{Volume: v}
	c.after.hash = hashVolume(&s.scratch, &c.after.Volume)
	c.nodesAfter = c.after.appendInvolvedNodes(c.nodesAfter)
	if old, replaced := s.volumes.Set(volumeItem{c.key, c.after}); replaced {
		c.before, c.nodesBefore = old.stored, old.stored.appendInvolvedNodes(c.nodesBefore)
		s.sum = s.sum.minus(c.before.hash)
	}
	s.sum = s.sum.plus(c.after.hash)
	s.lookups.rename(c.before.liveName(), c.after.liveName(), c.key)
	s.snapshots.index.replaceCreatingFrom(c.before, c.after)
	s.index.replace(c)
}

// removeVolume forgets a volume: its hosts reported it gone, or were lost (S105).
func (s *State) removeVolume(id VolumeID) {
	key, _ := id.uuid()
	if v, ok := s.volume(key); ok {
		s.recentFailures.add(string(id), v.CreateFailure())
	}
	old, ok := s.volumes.Delete(volumeItem{key: key})
	if !ok {
		return
	}
	s.leaveGroup(id)
	c := volumeChange{key: key, before: old.stored, nodesBefore: old.stored.appendInvolvedNodes(nil)}
	s.sum = s.sum.minus(c.before.hash)
	s.lookups.rename(c.before.liveName(), scopedName{}, key)
	s.snapshots.index.replaceCreatingFrom(c.before, nil)
	s.index.replace(&c)
	s.announceVolume(&c)
	s.writes++
}

// putNode is the only way a node enters the state or changes.
func (s *State) putNode(n Node) {
	s.storeNode(n)
	s.changes = append(s.changes, Change{Node: n.ID})
	s.writes++
}

// storeNode keeps table and hash together.
func (s *State) storeNode(n Node) {
	r := &storedNode{Node: n}
	r.hash = hashNode(&s.scratch, &r.Node)
	if old, replaced := s.nodes.Set(n.ID, r); replaced {
		s.sum = s.sum.minus(old.hash)
	}
	s.sum = s.sum.plus(r.hash)
}

// putAnswer remembers what a command answered.
func (s *State) putAnswer(a *answer) {
	a.hash = hashAnswer(&s.scratch, a)
	s.answers.Set(a.index, a)
	s.lookups.answers[a.key] = a
	s.sum = s.sum.plus(a.hash)
}

// removeAnswer forgets what a command answered.
func (s *State) removeAnswer(a *answer) {
	s.answers.Delete(a.index)
	delete(s.lookups.answers, a.key)
	s.sum = s.sum.minus(a.hash)
}

// announceVolume announces the change to every host that held or holds something of the volume.
func (s *State) announceVolume(c *volumeChange) {
	id := c.id()
	for _, node := range c.nodesAfter {
		if plantedbug.Is(plantedbug.ChangeUnannounced) {
			break
		}
		s.changes = append(s.changes, Change{Volume: id, Node: node})
	}
	for _, node := range c.nodesBefore {
		if !slices.Contains(c.nodesAfter, node) {
			s.changes = append(s.changes, Change{Volume: id, Node: node})
		}
	}
	if len(c.nodesAfter) == 0 {
		s.changes = append(s.changes, Change{Volume: id})
	}
}

// wakeWaiters announces to all callers that wait for a volume or a snapshot that the record of
// the node changed. The node itself reads its own record again.
func (s *State) wakeWaiters(node NodeID) {
	s.changes = append(s.changes, Change{Node: node, WakeWaiters: true})
}

func (c *volumeChange) id() VolumeID {
	if c.after != nil {
		return c.after.ID
	}
	return c.before.ID
}

// liveName is the name the volume holds, zero when it holds none (S18).
func (r *storedVolume) liveName() scopedName {
	if r == nil {
		return scopedName{}
	}
	return r.Volume.liveName()
}

func (v *Volume) liveName() scopedName {
	if _, deleting := v.Phase.(Deleting); deleting {
		return scopedName{}
	}
	return scopedName{v.Origin, v.Name}
}

func (r *storedVolume) publications() []Publication {
	if r == nil {
		return nil
	}
	return r.Publications()
}

func (r *storedVolume) teardowns() []Teardown {
	if r == nil {
		return nil
	}
	return r.Teardowns
}

// waitingForPeer tells whether what is desired of one of the volume's replicas may depend on
// whether its peer's host is reachable.
func (r *storedVolume) waitingForPeer() bool {
	return r != nil && r.Replication != nil && slices.ContainsFunc(r.ActiveReplicas(), func(r *Replica) bool { return r.waitsForPeer() })
}

// inRepair tells whether a replicated volume that is Ready lacks a replica, or one of
// them is being made, removed or synchronised.
func (r *storedVolume) inRepair() bool {
	if r == nil || r.Replication == nil {
		return false
	}
	if _, ready := r.Phase.(Ready); !ready {
		return false
	}
	staying := 0
	for _, replica := range r.ActiveReplicas() {
		if replica.Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET {
			return true
		}
		if replica.State != ReplicaGone {
			staying++
		}
	}
	return staying < int(r.Replication.ReplicaCount) || r.isChangingReplicas()
}

func (r *storedVolume) appendOperationIDs(ids []OperationID) []OperationID {
	if r == nil || r.Operation == nil {
		return ids
	}
	ids = append(ids, r.Operation.ID)
	for i := range r.OtherOperations {
		ids = append(ids, r.OtherOperations[i].ID)
	}
	return ids
}

// eachReservation visits the pools in which room is reserved for the volume.
func (r *storedVolume) eachReservation(visit func(PoolID, int64)) {
	if r == nil {
		return
	}
	for i := range r.Replicas {
		if r.Replicas[i].State != ReplicaGone {
			visit(r.Replicas[i].Pool, r.Crypt.deviceBytes(r.Size))
		}
	}
}
