package fsm

import (
	"cmp"

	"github.com/tidwall/btree"
)

// snapshotRecord is a snapshot in its table, with the hash of what it holds.
type snapshotRecord struct {
	Snapshot
	own sum256
}

// groupRecord is a group snapshot in its table, with the hash of what it holds.
type groupRecord struct {
	GroupSnapshot
	own sum256
}

// cuts are the tables of snapshots and of groups of them, and what is derived.
type cuts struct {
	snapshots *btree.Map[SnapshotID, *snapshotRecord]
	groups    *btree.Map[GroupSnapshotID, *groupRecord]
	index     cutIndex
}

// cutIndex is what can be derived from snapshots and groups, and which volumes are
// being made from what. It is neither hashed nor written.
type cutIndex struct {
	names           *btree.Map[string, SnapshotID]      // live snapshots (S113)
	groupNames      *btree.Map[string, GroupSnapshotID] // live groups (S113)
	bySource        *btree.BTreeG[pair]                 // volume, snapshot
	byNode          *btree.BTreeG[pair]                 // node, snapshot that it keeps or owes
	operations      *btree.Map[uint64, SnapshotID]
	groupOperations *btree.Map[uint64, GroupSnapshotID]
	making          *btree.BTreeG[pair] // source, volume that is Creating from it (S116)
	cutting         *btree.BTreeG[pair] // volume, snapshot of it that is Cutting
	kept            *btree.BTreeG[pair] // volume, copy that is kept of it
}

// pair relates two ids, in order of the first.
type pair struct{ of, id string }

func (p pair) before(o pair) bool {
	return cmp.Or(cmp.Compare(p.of, o.of), cmp.Compare(p.id, o.id)) < 0
}

func newCuts() cuts {
	return cuts{
		snapshots: new(btree.Map[SnapshotID, *snapshotRecord]),
		groups:    new(btree.Map[GroupSnapshotID, *groupRecord]),
		index:     newCutIndex(),
	}
}

func newCutIndex() cutIndex {
	return cutIndex{
		names:           new(btree.Map[string, SnapshotID]),
		groupNames:      new(btree.Map[string, GroupSnapshotID]),
		bySource:        ordered(pair.before),
		byNode:          ordered(pair.before),
		operations:      new(btree.Map[uint64, SnapshotID]),
		groupOperations: new(btree.Map[uint64, GroupSnapshotID]),
		making:          ordered(pair.before),
		cutting:         ordered(pair.before),
		kept:            ordered(pair.before),
	}
}

func (c *cuts) copy() cuts {
	x := &c.index
	return cuts{
		snapshots: c.snapshots.Copy(),
		groups:    c.groups.Copy(),
		index: cutIndex{
			names: x.names.Copy(), groupNames: x.groupNames.Copy(), bySource: x.bySource.Copy(), byNode: x.byNode.Copy(),
			operations: x.operations.Copy(), groupOperations: x.groupOperations.Copy(), making: x.making.Copy(), cutting: x.cutting.Copy(), kept: x.kept.Copy(),
		},
	}
}

// putSnapshot is the only way a snapshot enters the state or changes.
func (s *State) putSnapshot(n Snapshot) {
	s.settleSnapshot(&n)
	n.Modified = s.cluster.Index
	s.writeSnapshot(n)
}

// writeSnapshot is putSnapshot of what was decided at an earlier index.
func (s *State) writeSnapshot(n Snapshot) {
	s.storeSnapshot(n)
	s.touchSnapshot(&n)
	s.writes++
}

// storeSnapshot keeps table, indexes, reservations and hash together.
func (s *State) storeSnapshot(n Snapshot) {
	r := &snapshotRecord{Snapshot: n}
	r.own = s.scratch.snapshot(&r.Snapshot)
	old, replaced := s.cuts.snapshots.Set(n.ID, r)
	if replaced {
		s.sum = s.sum.minus(old.own)
		s.cuts.index.leave(&old.Snapshot)
		s.index.reserveSnapshot(&old.Snapshot, -1)
	}
	s.sum = s.sum.plus(r.own)
	s.cuts.index.enter(&r.Snapshot)
	s.index.reserveSnapshot(&r.Snapshot, 1)
}

// removeSnapshot forgets a snapshot that no host keeps anything of (S105).
func (s *State) removeSnapshot(id SnapshotID) {
	old, ok := s.cuts.snapshots.Delete(id)
	if !ok {
		return
	}
	s.givenUp.add(string(id), old.GaveUp())
	s.sum = s.sum.minus(old.own)
	s.cuts.index.leave(&old.Snapshot)
	s.index.reserveSnapshot(&old.Snapshot, -1)
	s.touchSnapshot(&old.Snapshot)
	s.writes++
}

// putGroup is the only way a group enters the state or changes. What its hosts are
// to do follows from its phase, so that they are told of their members.
func (s *State) putGroup(g GroupSnapshot) {
	g.Modified = s.cluster.Index
	s.storeGroup(g)
	s.touched = append(s.touched, Touch{Group: g.ID})
	for _, id := range g.Members {
		if n, ok := s.Snapshot(id); ok {
			s.touchSnapshot(n)
		}
	}
	s.writes++
}

// storeGroup keeps table, indexes and hash together.
func (s *State) storeGroup(g GroupSnapshot) {
	r := &groupRecord{GroupSnapshot: g}
	r.own = s.scratch.group(&r.GroupSnapshot)
	if old, replaced := s.cuts.groups.Set(g.ID, r); replaced {
		s.sum = s.sum.minus(old.own)
		s.cuts.index.leaveGroup(&old.GroupSnapshot)
	}
	s.sum = s.sum.plus(r.own)
	s.cuts.index.enterGroup(&r.GroupSnapshot)
}

// removeGroup forgets a group of which no member is left.
func (s *State) removeGroup(id GroupSnapshotID) {
	old, ok := s.cuts.groups.Delete(id)
	if !ok {
		return
	}
	s.givenUp.add(string(id), old.GaveUp())
	s.sum = s.sum.minus(old.own)
	s.cuts.index.leaveGroup(&old.GroupSnapshot)
	s.touched = append(s.touched, Touch{Group: id})
	s.writes++
}

// touchSnapshot tells the host that keeps or owes something of it, and watchers.
func (s *State) touchSnapshot(n *Snapshot) {
	s.touched = append(s.touched, Touch{Snapshot: n.ID, Group: n.Group, Node: n.Node})
}

func (x *cutIndex) enter(n *Snapshot) {
	if name := n.liveName(); name != "" {
		x.names.Set(name, n.ID)
	}
	x.bySource.Set(pair{string(n.Source), string(n.ID)})
	if !n.Gone {
		x.byNode.Set(pair{string(n.Node), string(n.ID)})
	}
	if n.Phase == SnapshotCutting && n.Kept == nil {
		x.cutting.Set(pair{string(n.Source), string(n.ID)})
	}
	if n.Kept != nil {
		x.kept.Set(pair{string(n.Source), string(n.ID)})
	}
	if n.Operation != nil {
		x.operations.Set(uint64(n.Operation.ID), n.ID)
	}
}

func (x *cutIndex) leave(n *Snapshot) {
	if name := n.liveName(); name != "" {
		x.names.Delete(name)
	}
	x.bySource.Delete(pair{string(n.Source), string(n.ID)})
	x.byNode.Delete(pair{string(n.Node), string(n.ID)})
	x.cutting.Delete(pair{string(n.Source), string(n.ID)})
	x.kept.Delete(pair{string(n.Source), string(n.ID)})
	if n.Operation != nil {
		x.operations.Delete(uint64(n.Operation.ID))
	}
}

func (x *cutIndex) enterGroup(g *GroupSnapshot) {
	if g.Phase != GroupDeleting {
		x.groupNames.Set(g.Name, g.ID)
	}
	if g.Operation != nil {
		x.groupOperations.Set(uint64(g.Operation.ID), g.ID)
	}
}

func (x *cutIndex) leaveGroup(g *GroupSnapshot) {
	if g.Phase != GroupDeleting {
		x.groupNames.Delete(g.Name)
	}
	if g.Operation != nil {
		x.groupOperations.Delete(uint64(g.Operation.ID))
	}
}

// remake follows a volume that is, or is no longer, being made from a source.
func (x *cutIndex) remake(old, now *volumeRecord) {
	was, is := old.making(), now.making()
	if was == is {
		return
	}
	if was != (pair{}) {
		x.making.Delete(was)
	}
	if is != (pair{}) {
		x.making.Set(is)
	}
}

// making relates a volume that is Creating to its source; zero for all others.
func (r *volumeRecord) making() pair {
	if r == nil || r.Source.IsZero() {
		return pair{}
	}
	if _, creating := r.Phase.(Creating); !creating {
		return pair{}
	}
	return pair{of: r.Source.key(), id: string(r.ID)}
}

// key is the id of what the source is; ids of volumes and snapshots differ.
func (s Source) key() string {
	return cmp.Or(string(s.Snapshot), string(s.Volume))
}

// first is the first id that the index relates to another and that is still, empty when
// there is none.
func first(x *btree.BTreeG[pair], of string, still func(id string) bool) (id string) {
	x.Ascend(pair{of: of}, func(p pair) bool {
		if p.of == of && still(p.id) {
			id = p.id
		}
		return p.of == of && id == ""
	})
	return id
}

// madeFrom is a volume that is being made from a volume or a snapshot.
func (s *State) madeFrom(source string) string {
	return first(s.cuts.index.making, source, func(id string) bool {
		v, ok := s.Volume(VolumeID(id))
		return ok && v.creating()
	})
}

// cutOf is a snapshot that is being cut of a volume.
func (s *State) cutOf(volume string) string {
	return first(s.cuts.index.cutting, volume, func(id string) bool {
		n, ok := s.Snapshot(SnapshotID(id))
		return ok && n.Phase == SnapshotCutting
	})
}

// liveName is the name the snapshot holds, empty when it holds none (S18).
func (n *Snapshot) liveName() string {
	if n.Phase == SnapshotDeleting {
		return ""
	}
	return n.Name
}

// reserveSnapshot: a snapshot keeps room as a volume does, until nothing is left of it.
func (x *index) reserveSnapshot(n *Snapshot, sign int) {
	if !n.Gone {
		x.reserve(n.Pool, int64(sign)*n.Size, poolUse{snapshots: sign})
	}
}
