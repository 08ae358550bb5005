package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// volumeRecord is a volume in its table, with the hash of what it holds.
type volumeRecord struct {
	Volume
	own sum256
}

// volumeEntry is a row of the table of volumes.
type volumeEntry struct {
	key    uuid
	record *volumeRecord
}

func (e volumeEntry) before(o volumeEntry) bool { return e.key.before(o.key) }

// nodeRecord is a node in its table, with the hash of what it holds.
type nodeRecord struct {
	Node
	own sum256
}

// putVolume is the only way a volume enters the state or changes.
func (s *State) putVolume(v Volume) {
	s.settleVolume(&v)
	v.Modified = s.cluster.Index
	again := s.level2() && v.whole() && !s.knownWhole(v.ID)
	s.writeVolume(v)
	if again {
		s.supersedeKept(v.ID)
	}
}

// knownWhole tells whether all replicas of the volume were up to date until now.
func (s *State) knownWhole(id VolumeID) bool {
	v, ok := s.Volume(id)
	return ok && v.whole()
}

// writeVolume is putVolume of what was decided at an earlier index.
func (s *State) writeVolume(v Volume) {
	var nodes [2][4]NodeID
	c := change{was: nodes[0][:0], is: nodes[1][:0]}
	s.storeVolume(&c, v)
	s.touchVolume(&c)
	s.writes++
}

// storeVolume keeps table, index and hash together.
func (s *State) storeVolume(c *change, v Volume) {
	c.key, _ = v.ID.uuid()
	c.now = &volumeRecord{Volume: v}
	c.now.own = s.scratch.volume(&c.now.Volume)
	c.is = c.now.appendHolders(c.is)
	if old, replaced := s.volumes.Set(volumeEntry{c.key, c.now}); replaced {
		c.old, c.was = old.record, old.record.appendHolders(c.was)
		s.sum = s.sum.minus(c.old.own)
	}
	s.sum = s.sum.plus(c.now.own)
	s.find.rename(c.old.liveName(), c.now.liveName(), c.key)
	s.cuts.index.remake(c.old, c.now)
	s.index.replace(c)
}

// removeVolume forgets a volume: its hosts reported it gone, or were lost (S105).
func (s *State) removeVolume(id VolumeID) {
	key, _ := id.uuid()
	if v, ok := s.volume(key); ok {
		s.givenUp.add(string(id), v.GaveUp())
	}
	old, ok := s.volumes.Delete(volumeEntry{key: key})
	if !ok {
		return
	}
	c := change{key: key, old: old.record, was: old.record.appendHolders(nil)}
	s.sum = s.sum.minus(c.old.own)
	s.find.rename(c.old.liveName(), "", key)
	s.cuts.index.remake(c.old, nil)
	s.index.replace(&c)
	s.touchVolume(&c)
	s.writes++
}

// putNode is the only way a node enters the state or changes.
func (s *State) putNode(n Node) {
	s.storeNode(n)
	s.touched = append(s.touched, Touch{Node: n.ID})
	s.writes++
}

// storeNode keeps table and hash together.
func (s *State) storeNode(n Node) {
	r := &nodeRecord{Node: n}
	r.own = s.scratch.node(&r.Node)
	if old, replaced := s.nodes.Set(n.ID, r); replaced {
		s.sum = s.sum.minus(old.own)
	}
	s.sum = s.sum.plus(r.own)
}

// putAnswer remembers what a command answered.
func (s *State) putAnswer(a *answer) {
	a.own = s.scratch.answer(a)
	s.answers.Set(a.index, a)
	s.find.answers[a.key] = a
	s.sum = s.sum.plus(a.own)
}

// removeAnswer forgets what a command answered.
func (s *State) removeAnswer(a *answer) {
	s.answers.Delete(a.index)
	delete(s.find.answers, a.key)
	s.sum = s.sum.minus(a.own)
}

// touchVolume tells every host that held or holds something of the volume.
func (s *State) touchVolume(c *change) {
	id := c.id()
	for _, node := range c.is {
		s.touched = append(s.touched, Touch{Volume: id, Node: node})
	}
	for _, node := range c.was {
		if !slices.Contains(c.is, node) {
			s.touched = append(s.touched, Touch{Volume: id, Node: node})
		}
	}
	if len(c.is) == 0 {
		s.touched = append(s.touched, Touch{Volume: id})
	}
}

// touchWide tells whoever waits for a volume or a snapshot that what the log knows of
// the node is another. The node itself reads its own record again.
func (s *State) touchWide(node NodeID) {
	s.touched = append(s.touched, Touch{Node: node, Wide: true})
}

func (c *change) id() VolumeID {
	if c.now != nil {
		return c.now.ID
	}
	return c.old.ID
}

// liveName is the name the volume holds, empty when it holds none (S18).
func (r *volumeRecord) liveName() string {
	if r == nil {
		return ""
	}
	return r.Volume.liveName()
}

func (v *Volume) liveName() string {
	if _, deleting := v.Phase.(Deleting); deleting {
		return ""
	}
	return v.Name
}

func (r *volumeRecord) publications() []Publication {
	if r == nil {
		return nil
	}
	return r.Publications()
}

func (r *volumeRecord) teardowns() []Teardown {
	if r == nil {
		return nil
	}
	return r.Teardowns
}

// waiting tells whether one of the volume's replicas may have to know of its peer's host
// whether it can be asked.
func (r *volumeRecord) waiting() bool {
	return r != nil && r.Replication != nil && slices.ContainsFunc(r.Replication.Legs, Leg.waits)
}

// unsettled tells whether a replicated volume that is Ready lacks a replica, or one of
// them is being made, removed or synchronised.
func (r *volumeRecord) unsettled() bool {
	if r == nil || r.Replication == nil {
		return false
	}
	if _, ready := r.Phase.(Ready); !ready {
		return false
	}
	kept := 0
	for i := range r.Replication.Legs {
		l := &r.Replication.Legs[i]
		if l.Seen.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET {
			return true
		}
		if held := r.Replica(l.Host); held != nil && held.State != ReplicaLeaving {
			kept++
		}
	}
	return kept < int(r.Replication.Wanted) || r.moving()
}

func (r *volumeRecord) appendOperationIDs(ids []OperationID) []OperationID {
	if r == nil || r.Operation == nil {
		return ids
	}
	ids = append(ids, r.Operation.ID)
	for i := range r.Beside {
		ids = append(ids, r.Beside[i].ID)
	}
	return ids
}

// eachReservation visits the pools that keep room for the volume.
func (r *volumeRecord) eachReservation(visit func(PoolID, int64)) {
	if r == nil {
		return
	}
	for i := range r.Replicas {
		if r.Replicas[i].State != ReplicaGone {
			visit(r.Replicas[i].Pool, r.Size)
		}
	}
}
