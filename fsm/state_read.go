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
	e, ok := s.volumes.Get(volumeItem{key: key})
	if !ok {
		return nil, false
	}
	return s.withSweeps(&e.stored.Volume)
}

// VolumeByName is the live volume (not Deleting) of that name at a site (S33).
func (s *State) VolumeByName(site Site, name string) (*Volume, bool) {
	key, ok := s.volumeKeyByName(scopedName{site, name})
	if !ok {
		return nil, false
	}
	v, ok := s.volume(key)
	if !ok || v.liveName() != (scopedName{site, name}) {
		return nil, false
	}
	return v, true
}

// Volumes yields all volumes with an id above after, in order, in all phases.
func (s *State) Volumes(after VolumeID) iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		from, _ := after.uuid() // from the beginning, where it is not an id
		s.volumes.Ascend(volumeItem{key: from}, func(e volumeItem) bool {
			if e.stored.ID <= after {
				return true
			}
			v, ok := s.withSweeps(&e.stored.Volume)
			return !ok || yield(v)
		})
	}
}

// VolumeCount is the number of volumes in all phases.
func (s *State) VolumeCount() int { return s.volumes.Len() }

// VolumesOn yields the volumes of which the host has a replica, a publication or a pending teardown, in order of id.
func (s *State) VolumesOn(node NodeID) iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		s.yieldInOrder(volumesUnder(s.index.byNode, node), func(v *Volume) bool {
			return len(s.cluster.Sweeps) > 0 && !slices.Contains(v.InvolvedNodes(), node) || yield(v)
		})
	}
}

// volumesWithTeardownOn yields the volumes of which the host has a pending teardown, in order of id.
func (s *State) volumesWithTeardownOn(node NodeID) iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		keys := append(volumesUnder(s.index.teardowns, node), s.keysBeingFenced(node)...)
		s.yieldInOrder(keys, func(v *Volume) bool {
			has := slices.ContainsFunc(v.Teardowns, func(t Teardown) bool { return t.Node == node })
			return !has || yield(v)
		})
	}
}

// VolumesInRepair yields the replicated volumes, Ready, that have fewer replicas than they
// should, or of which one is being made, removed or synchronised, in order of id.
func (s *State) VolumesInRepair() iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) { s.yieldInOrder(s.index.inRepair.Values(), yield) }
}

// volumesUnder are the volumes that an index has under a host.
func volumesUnder(index *btree.BTreeG[nodeVolume], node NodeID) (keys []uuid) {
	index.Ascend(nodeVolume{node: node}, func(p nodeVolume) bool {
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
		s.nodes.Scan(func(_ NodeID, r *storedNode) bool { return yield(&r.Node) })
	}
}

// Operations yields the volumes that have operations, each once, in order of volume id.
func (s *State) Operations() iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		keys := s.index.byOperation.Values()
		for i := range s.cluster.Sweeps {
			keys = append(keys, s.keysBeingFenced(s.cluster.Sweeps[i].Node)...)
		}
		s.yieldInOrder(keys, func(v *Volume) bool { return v.Operation == nil || yield(v) })
	}
}

// yieldInOrder yields the volumes of these keys in order of id.
func (s *State) yieldInOrder(keys []uuid, yield func(*Volume) bool) {
	slices.SortFunc(keys, uuid.compare)
	for _, key := range slices.Compact(keys) {
		if v, ok := s.volume(key); ok && !yield(v) {
			return
		}
	}
}

// Operation finds the volume that has this operation.
func (s *State) Operation(id OperationID) (*Volume, bool) {
	if key, ok := s.index.byOperation.Get(uint64(id)); ok {
		return s.volumeWithOperation(key, id)
	}
	for i := range s.cluster.Sweeps {
		for _, key := range s.keysBeingFenced(s.cluster.Sweeps[i].Node) {
			if v, ok := s.volumeWithOperation(key, id); ok {
				return v, true
			}
		}
	}
	return nil, false
}

func (s *State) volumeWithOperation(key uuid, id OperationID) (*Volume, bool) {
	v, ok := s.volume(key)
	if !ok || v.findOperation(func(o *Operation) bool { return o.ID == id }) == nil {
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
	if s.isBeingFenced(node) {
		return 0
	}
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
