package fsm

import "slices"

// volumeRecord is a volume in its table, with the hash of what it holds.
type volumeRecord struct {
	Volume
	own sum256
}

// nodeRecord is a node in its table, with the hash of what it holds.
type nodeRecord struct {
	Node
	own sum256
}

// putVolume is the only way a volume enters the state or changes.
func (s *State) putVolume(v Volume) {
	v.Modified = s.cluster.Index
	old, now := s.storeVolume(v)
	s.touchVolume(old, now)
	s.writes++
}

// storeVolume keeps table, index and hash together.
func (s *State) storeVolume(v Volume) (old, now *volumeRecord) {
	r := &volumeRecord{Volume: v}
	r.own = s.scratch.volume(&r.Volume)
	old, replaced := s.volumes.Set(v.ID, r)
	if replaced {
		s.sum = s.sum.minus(old.own)
	}
	s.sum = s.sum.plus(r.own)
	s.index.replace(old, r)
	return old, r
}

// removeVolume forgets a volume: its hosts reported it gone, or were lost (I5).
func (s *State) removeVolume(id VolumeID) {
	old, ok := s.volumes.Delete(id)
	if !ok {
		return
	}
	s.sum = s.sum.minus(old.own)
	s.index.replace(old, nil)
	s.touchVolume(old, nil)
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
	s.answers.Set(a.key, a)
	s.index.answers.Set(a.index, a)
	s.sum = s.sum.plus(a.own)
}

// removeAnswer forgets what a command answered.
func (s *State) removeAnswer(a *answer) {
	s.answers.Delete(a.key)
	s.index.answers.Delete(a.index)
	s.sum = s.sum.minus(a.own)
}

// touchVolume tells every host that held or holds something of the volume.
func (s *State) touchVolume(old, now *volumeRecord) {
	id := idOf(old, now)
	is := now.holders()
	for _, node := range is {
		s.touched = append(s.touched, Touch{Volume: id, Node: node})
	}
	for _, node := range old.holders() {
		if !slices.Contains(is, node) {
			s.touched = append(s.touched, Touch{Volume: id, Node: node})
		}
	}
	if len(is) == 0 {
		s.touched = append(s.touched, Touch{Volume: id})
	}
}

// touchAllOn tells a host that every wish for it may read differently now.
func (s *State) touchAllOn(node NodeID) {
	for v := range s.VolumesOn(node) {
		s.touched = append(s.touched, Touch{Volume: v.ID, Node: node})
	}
}

func idOf(old, now *volumeRecord) VolumeID {
	if now != nil {
		return now.ID
	}
	return old.ID
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

// holders are the hosts that keep or owe something of the volume, each once.
func (r *volumeRecord) holders() []NodeID {
	if r == nil {
		return nil
	}
	return r.Holders()
}

func (r *volumeRecord) publications() []Publication {
	if r == nil {
		return nil
	}
	return r.Publications()
}

func (r *volumeRecord) operationID() OperationID {
	if r == nil || r.Operation == nil {
		return 0
	}
	return r.Operation.ID
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
