package fsm

import (
	"cmp"

	"github.com/tidwall/btree"
)

// storedSnapshot is a snapshot in its table, with the hash of what it holds.
type storedSnapshot struct {
	Snapshot
	hash sum256
}

// storedGroup is a group snapshot in its table, with the hash of what it holds.
type storedGroup struct {
	GroupSnapshot
	hash sum256
}

// snapshotTables are the tables of snapshots and of group snapshots, and their indexes.
type snapshotTables struct {
	byID   *btree.Map[SnapshotID, *storedSnapshot]
	groups *btree.Map[GroupSnapshotID, *storedGroup]
	index  snapshotIndex
}

// snapshotIndex is what can be derived from snapshots and groups, and which volumes are
// being made from what. It is neither hashed nor dumped.
type snapshotIndex struct {
	names           nameTable[SnapshotID]      // live snapshots (S113)
	groupNames      nameTable[GroupSnapshotID] // live groups (S113)
	bySource        *btree.BTreeG[idPair]      // volume, snapshot
	byNode          *btree.BTreeG[idPair]      // node, snapshot that it keeps or must remove
	operations      *btree.Map[uint64, SnapshotID]
	groupOperations *btree.Map[uint64, GroupSnapshotID]
	creatingFrom    *btree.BTreeG[idPair] // source, volume that is Creating from it (S116)
	taking          *btree.BTreeG[idPair] // volume, snapshot of it that is Taking
	keptCopies      *btree.BTreeG[idPair] // volume, kept copy of it
}

// idPair relates two ids, in order of the first.
type idPair struct{ subject, id string }

func (p idPair) before(o idPair) bool {
	return cmp.Or(cmp.Compare(p.subject, o.subject), cmp.Compare(p.id, o.id)) < 0
}

func newSnapshotTables() snapshotTables {
	return snapshotTables{
		byID:   new(btree.Map[SnapshotID, *storedSnapshot]),
		groups: new(btree.Map[GroupSnapshotID, *storedGroup]),
		index:  newSnapshotIndex(),
	}
}

func newSnapshotIndex() snapshotIndex {
	return snapshotIndex{
		names:           newNameTable[SnapshotID](),
		groupNames:      newNameTable[GroupSnapshotID](),
		bySource:        ordered(idPair.before),
		byNode:          ordered(idPair.before),
		operations:      new(btree.Map[uint64, SnapshotID]),
		groupOperations: new(btree.Map[uint64, GroupSnapshotID]),
		creatingFrom:    ordered(idPair.before),
		taking:          ordered(idPair.before),
		keptCopies:      ordered(idPair.before),
	}
}

func (c *snapshotTables) copy() snapshotTables {
	x := &c.index
	return snapshotTables{
		byID:   c.byID.Copy(),
		groups: c.groups.Copy(),
		index: snapshotIndex{
			names: x.names.Copy(), groupNames: x.groupNames.Copy(), bySource: x.bySource.Copy(), byNode: x.byNode.Copy(),
			operations: x.operations.Copy(), groupOperations: x.groupOperations.Copy(), creatingFrom: x.creatingFrom.Copy(), taking: x.taking.Copy(), keptCopies: x.keptCopies.Copy(),
		},
	}
}

// putSnapshot is the only way a snapshot enters the state or changes.
func (s *State) putSnapshot(n Snapshot) {
	s.sweepSnapshotPredecessors(&n)
	n.Modified = s.cluster.Index
	s.writeSnapshot(n)
}

// writeSnapshot is putSnapshot of what was decided at an earlier index.
func (s *State) writeSnapshot(n Snapshot) {
	s.storeSnapshot(n)
	s.announceSnapshot(&n)
	s.writes++
}

// storeSnapshot keeps table, indexes, reservations and hash together.
func (s *State) storeSnapshot(n Snapshot) {
	r := &storedSnapshot{Snapshot: n}
	r.hash = hashSnapshot(&s.scratch, &r.Snapshot)
	old, replaced := s.snapshots.byID.Set(n.ID, r)
	if replaced {
		s.sum = s.sum.minus(old.hash)
		s.snapshots.index.remove(&old.Snapshot)
		s.index.reserveSnapshot(&old.Snapshot, -1)
	}
	s.sum = s.sum.plus(r.hash)
	s.snapshots.index.add(&r.Snapshot)
	s.index.reserveSnapshot(&r.Snapshot, 1)
}

// removeSnapshot forgets a snapshot that no host keeps anything of (S105).
func (s *State) removeSnapshot(id SnapshotID) {
	old, ok := s.snapshots.byID.Delete(id)
	if !ok {
		return
	}
	s.recentFailures.add(string(id), old.CreateFailure())
	s.sum = s.sum.minus(old.hash)
	s.snapshots.index.remove(&old.Snapshot)
	s.index.reserveSnapshot(&old.Snapshot, -1)
	s.announceSnapshot(&old.Snapshot)
	s.writes++
}

// putGroup is the only way a group enters the state or changes. What its hosts are to
// do follows from its phase, so its members are announced as changed too.
func (s *State) putGroup(g GroupSnapshot) {
	g.Modified = s.cluster.Index
	s.storeGroup(g)
	s.changes = append(s.changes, Change{Group: g.ID})
	for _, id := range g.Members {
		if n, ok := s.Snapshot(id); ok {
			s.announceSnapshot(n)
		}
	}
	s.writes++
}

// storeGroup keeps table, indexes and hash together.
func (s *State) storeGroup(g GroupSnapshot) {
	r := &storedGroup{GroupSnapshot: g}
	r.hash = hashGroup(&s.scratch, &r.GroupSnapshot)
	if old, replaced := s.snapshots.groups.Set(g.ID, r); replaced {
		s.sum = s.sum.minus(old.hash)
		s.snapshots.index.removeGroup(&old.GroupSnapshot)
	}
	s.sum = s.sum.plus(r.hash)
	s.snapshots.index.addGroup(&r.GroupSnapshot)
}

// removeGroup forgets a group of which no member is left.
func (s *State) removeGroup(id GroupSnapshotID) {
	old, ok := s.snapshots.groups.Delete(id)
	if !ok {
		return
	}
	s.recentFailures.add(string(id), old.CreateFailure())
	s.sum = s.sum.minus(old.hash)
	s.snapshots.index.removeGroup(&old.GroupSnapshot)
	s.changes = append(s.changes, Change{Group: id})
	s.writes++
}

// announceSnapshot announces the change to the snapshot's host and to watchers.
func (s *State) announceSnapshot(n *Snapshot) {
	s.changes = append(s.changes, Change{Snapshot: n.ID, Group: n.Group, Node: n.Node})
}

func (x *snapshotIndex) add(n *Snapshot) {
	if name := n.liveName(); !name.isZero() {
		x.names.Set(name, n.ID)
	}
	x.bySource.Set(idPair{string(n.Source), string(n.ID)})
	if !n.Gone {
		x.byNode.Set(idPair{string(n.Node), string(n.ID)})
	}
	if n.Phase == SnapshotTaking && n.KeptCopy == nil {
		x.taking.Set(idPair{string(n.Source), string(n.ID)})
	}
	if n.KeptCopy != nil {
		x.keptCopies.Set(idPair{string(n.Source), string(n.ID)})
	}
	if n.Operation != nil {
		x.operations.Set(uint64(n.Operation.ID), n.ID)
	}
}

func (x *snapshotIndex) remove(n *Snapshot) {
	if name := n.liveName(); !name.isZero() {
		x.names.Delete(name)
	}
	x.bySource.Delete(idPair{string(n.Source), string(n.ID)})
	x.byNode.Delete(idPair{string(n.Node), string(n.ID)})
	x.taking.Delete(idPair{string(n.Source), string(n.ID)})
	x.keptCopies.Delete(idPair{string(n.Source), string(n.ID)})
	if n.Operation != nil {
		x.operations.Delete(uint64(n.Operation.ID))
	}
}

func (x *snapshotIndex) addGroup(g *GroupSnapshot) {
	if name := g.liveName(); !name.isZero() {
		x.groupNames.Set(name, g.ID)
	}
	if g.Operation != nil {
		x.groupOperations.Set(uint64(g.Operation.ID), g.ID)
	}
}

func (x *snapshotIndex) removeGroup(g *GroupSnapshot) {
	if name := g.liveName(); !name.isZero() {
		x.groupNames.Delete(name)
	}
	if g.Operation != nil {
		x.groupOperations.Delete(uint64(g.Operation.ID))
	}
}

// replaceCreatingFrom follows a volume that is, or is no longer, being made from a source.
func (x *snapshotIndex) replaceCreatingFrom(old, updated *storedVolume) {
	before, after := old.creatingFrom(), updated.creatingFrom()
	if before == after {
		return
	}
	if before != (idPair{}) {
		x.creatingFrom.Delete(before)
	}
	if after != (idPair{}) {
		x.creatingFrom.Set(after)
	}
}

// creatingFrom relates a volume that is Creating to its source; zero for all others.
func (r *storedVolume) creatingFrom() idPair {
	if r == nil || r.Source.IsZero() {
		return idPair{}
	}
	if _, creating := r.Phase.(Creating); !creating {
		return idPair{}
	}
	return idPair{subject: r.Source.key(), id: string(r.ID)}
}

// key is the id of what the source is; ids of volumes and snapshots differ.
func (s Source) key() string {
	return cmp.Or(string(s.Snapshot), string(s.Volume))
}

// firstRelated is the first id that the index relates to the subject and for which still holds,
// empty when there is none. While sweeps are pending an index may relate more than there is.
func firstRelated(x *btree.BTreeG[idPair], subject string, still func(id string) bool) (id string) {
	x.Ascend(idPair{subject: subject}, func(p idPair) bool {
		if p.subject == subject && still(p.id) {
			id = p.id
		}
		return p.subject == subject && id == ""
	})
	return id
}

// volumeCreatingFrom is a volume that is being made from a volume or a snapshot.
func (s *State) volumeCreatingFrom(source string) string {
	return firstRelated(s.snapshots.index.creatingFrom, source, func(id string) bool {
		v, ok := s.Volume(VolumeID(id))
		return ok && v.isCreating()
	})
}

// snapshotBeingTaken is a snapshot that is being taken of a volume, empty when there is none.
func (s *State) snapshotBeingTaken(volume string) string {
	return firstRelated(s.snapshots.index.taking, volume, func(id string) bool {
		n, ok := s.Snapshot(SnapshotID(id))
		return ok && n.Phase == SnapshotTaking
	})
}

// liveName is the name the snapshot holds, zero when it holds none (S18).
func (n *Snapshot) liveName() scopedName {
	if n.Phase == SnapshotDeleting || n.Name == "" {
		return scopedName{}
	}
	return scopedName{n.Origin, n.Name}
}

// liveName is the name the group holds, zero when it holds none.
func (g *GroupSnapshot) liveName() scopedName {
	if g.Phase == GroupDeleting {
		return scopedName{}
	}
	return scopedName{g.Origin, g.Name}
}

// reserveSnapshot: a snapshot reserves room as a volume does, until it is Gone.
func (x *index) reserveSnapshot(n *Snapshot, sign int) {
	if !n.Gone {
		x.reserve(n.Pool, int64(sign)*n.Crypt.deviceBytes(n.Size), poolUse{snapshots: sign})
	}
}
