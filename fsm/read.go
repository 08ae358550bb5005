package fsm

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tidwall/btree"
)

// Volume is a volume in any phase.
func (s *State) Volume(id VolumeID) (*Volume, bool) {
	key, ok := id.uuid()
	if !ok {
		return nil, false
	}
	return s.volume(key)
}

func (s *State) volume(key uuid) (*Volume, bool) {
	e, ok := s.volumes.Get(volumeEntry{key: key})
	if !ok {
		return nil, false
	}
	return s.current(&e.record.Volume)
}

// VolumeByName is the live volume (not Deleting) of that name.
func (s *State) VolumeByName(name string) (*Volume, bool) {
	key, ok := s.named(name)
	if !ok {
		return nil, false
	}
	v, ok := s.volume(key)
	if !ok || v.liveName() != name {
		return nil, false
	}
	return v, true
}

// Volumes yields all volumes with an id above after, in order, in all phases.
func (s *State) Volumes(after VolumeID) iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		from, _ := after.uuid() // from the beginning, where it is no id
		s.volumes.Ascend(volumeEntry{key: from}, func(e volumeEntry) bool {
			if e.record.ID <= after {
				return true
			}
			v, ok := s.current(&e.record.Volume)
			return !ok || yield(v)
		})
	}
}

// VolumeCount is the number of volumes in all phases.
func (s *State) VolumeCount() int { return s.volumes.Len() }

// VolumesOn yields the volumes of which the host keeps or owes something, in order of id.
func (s *State) VolumesOn(node NodeID) iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		s.inOrder(placedOn(s.index.byNode, node), func(v *Volume) bool {
			return len(s.cluster.Sweeps) > 0 && !slices.Contains(v.Holders(), node) || yield(v)
		})
	}
}

// owedBy yields the volumes of which the host owes the end of a publication, in order of id.
func (s *State) owedBy(node NodeID) iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		s.inOrder(placedOn(s.index.owing, node), func(v *Volume) bool {
			owes := slices.ContainsFunc(v.Teardowns, func(t Teardown) bool { return t.Node == node })
			return !owes || yield(v)
		})
	}
}

// Unsettled yields the replicated volumes, Ready, that have fewer replicas than they
// should, or of which one is being made, removed or synchronised, in order of id.
func (s *State) Unsettled() iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) { s.inOrder(s.index.unsettled.Values(), yield) }
}

// placedOn are the volumes that an index has under a host.
func placedOn(index *btree.BTreeG[placed], node NodeID) (keys []uuid) {
	index.Ascend(placed{node: node}, func(p placed) bool {
		if p.node == node {
			keys = append(keys, p.volume)
		}
		return p.node == node
	})
	return keys
}

// Node is one host's record.
func (s *State) Node(id NodeID) (*Node, bool) {
	r, ok := s.nodes.Get(id)
	if !ok {
		return nil, false
	}
	return &r.Node, true
}

// Nodes yields all hosts in order of name.
func (s *State) Nodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		s.nodes.Scan(func(_ NodeID, r *nodeRecord) bool { return yield(&r.Node) })
	}
}

// Operations yields the volumes that have operations, each once, in order of volume id.
func (s *State) Operations() iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		keys := s.index.byOperation.Values()
		slices.SortFunc(keys, uuid.compare)
		s.inOrder(slices.Compact(keys), func(v *Volume) bool { return v.Operation == nil || yield(v) })
	}
}

// inOrder yields the volumes of these keys in order of id.
func (s *State) inOrder(keys []uuid, yield func(*Volume) bool) {
	slices.SortFunc(keys, uuid.compare)
	for _, key := range keys {
		if v, ok := s.volume(key); ok && !yield(v) {
			return
		}
	}
}

// Operation finds the volume that has this operation.
func (s *State) Operation(id OperationID) (*Volume, bool) {
	key, ok := s.index.byOperation.Get(uint64(id))
	if !ok {
		return nil, false
	}
	v, ok := s.volume(key)
	if !ok || v.operationWhere(func(o *Operation) bool { return o.ID == id }) == nil {
		return nil, false
	}
	return v, true
}

// PoolUse is how much of a pool volumes and snapshots reserve, in bytes, and how
// many volumes are in it.
func (s *State) PoolUse(id PoolID) (reserved int64, volumes int) {
	use, _ := s.index.pools.Get(string(id))
	return use.reserved, use.volumes
}

// PublicationCount is how many publications a node holds.
func (s *State) PublicationCount(node NodeID) int {
	n, _ := s.index.publications.Get(string(node))
	return n
}

// Topology is a host's segments, sorted by key: the topology key, the zone and
// the operators' labels.
func (n *Node) Topology() Topology {
	t := make(Topology, 0, len(n.Labels)+1)
	t = append(t, Label{Key: TopologyKey, Value: string(n.ID)})
	for _, l := range n.Labels {
		if l.Key != TopologyKey {
			t = append(t, l)
		}
	}
	slices.SortFunc(t, func(a, b Label) int { return cmp.Compare(a.Key, b.Key) })
	return t
}
