package fsm

import (
	"slices"

	"github.com/tidwall/btree"
)

// index is what can be derived from the records: it is neither hashed nor
// written to snapshots. Every field is a pure function of the records, so that
// a state that was restored decides as one that was replayed.
type index struct {
	byName       *btree.BTreeG[nameEntry] // live volumes (I1)
	byNode       *btree.BTreeG[placed]
	byOperation  *btree.Map[uint64, uuid]
	byCreation   *btree.Map[uint64, *volumeRecord] // by the index that created it
	pools        *btree.Map[string, poolUse]
	publications *btree.Map[string, int] // per node
}

// nameEntry says which volume has a name. Names are ordered by a hash first, so that
// a look-up compares numbers and follows one pointer.
type nameEntry struct {
	hash   uint64
	name   string
	volume uuid
}

func (n nameEntry) before(o nameEntry) bool {
	return n.hash < o.hash || n.hash == o.hash && n.name < o.name
}

// nameKey is a name as the index finds it. FNV-1a is fixed by its definition; two
// names of one hash are told apart by themselves.
func nameKey(name string) nameEntry {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return nameEntry{hash: h, name: name}
}

// placed says that a host keeps, or owes, something of a volume.
type placed struct {
	node   NodeID
	volume uuid
}

func (p placed) before(o placed) bool {
	if p.node != o.node {
		return p.node < o.node
	}
	return p.volume.before(o.volume)
}

// poolUse is what a pool's volumes reserve.
type poolUse struct {
	reserved int64
	volumes  int
}

// ordered is a copy-on-write tree. The state has one owner, so it takes no locks.
func ordered[T any](before func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})
}

func newIndex() index {
	return index{
		byName:       ordered(nameEntry.before),
		byNode:       ordered(placed.before),
		byOperation:  new(btree.Map[uint64, uuid]),
		byCreation:   new(btree.Map[uint64, *volumeRecord]),
		pools:        new(btree.Map[string, poolUse]),
		publications: new(btree.Map[string, int]),
	}
}

func (x *index) copy() index {
	return index{
		byName:       x.byName.Copy(),
		byNode:       x.byNode.Copy(),
		byOperation:  x.byOperation.Copy(),
		byCreation:   x.byCreation.Copy(),
		pools:        x.pools.Copy(),
		publications: x.publications.Copy(),
	}
}

// change is a volume's old and new value, either of them nil, with the nodes that
// hold something of it before and after.
type change struct {
	key      uuid
	old, now *volumeRecord
	was, is  []NodeID
}

// replace moves the index from a volume's old value to its new one.
func (x *index) replace(c *change) {
	x.replaceName(c)
	x.replaceHolders(c)
	x.replaceReservations(c.old, c.now)
	x.replacePublications(c.old, c.now)
	x.replaceOperation(c)
	if c.now != nil {
		x.byCreation.Set(c.now.Created.Index, c.now)
	} else {
		x.byCreation.Delete(c.old.Created.Index)
	}
}

func (x *index) replaceName(c *change) {
	switch was, is := c.old.liveName(), c.now.liveName(); {
	case was == is:
	case is != "":
		n := nameKey(is)
		n.volume = c.key
		x.byName.Set(n)
	default:
		x.byName.Delete(nameKey(was))
	}
}

func (x *index) replaceHolders(c *change) {
	for _, node := range c.was {
		if !slices.Contains(c.is, node) {
			x.byNode.Delete(placed{node, c.key})
		}
	}
	for _, node := range c.is {
		if !slices.Contains(c.was, node) {
			x.byNode.Set(placed{node, c.key})
		}
	}
}

func (x *index) replaceReservations(old, now *volumeRecord) {
	if old != nil && now != nil && old.Size == now.Size && slices.Equal(old.Replicas, now.Replicas) {
		return
	}
	old.eachReservation(func(pool PoolID, size int64) { x.reserve(pool, -size, -1) })
	now.eachReservation(func(pool PoolID, size int64) { x.reserve(pool, size, 1) })
}

func (x *index) reserve(pool PoolID, size int64, volumes int) {
	use, _ := x.pools.Get(string(pool))
	use.reserved += size
	use.volumes += volumes
	if use == (poolUse{}) {
		x.pools.Delete(string(pool))
		return
	}
	x.pools.Set(string(pool), use)
}

func (x *index) replacePublications(old, now *volumeRecord) {
	for _, p := range old.publications() {
		x.countPublication(p.Node, -1)
	}
	for _, p := range now.publications() {
		x.countPublication(p.Node, 1)
	}
}

func (x *index) countPublication(node NodeID, by int) {
	n, _ := x.publications.Get(string(node))
	if n+by == 0 {
		x.publications.Delete(string(node))
		return
	}
	x.publications.Set(string(node), n+by)
}

func (x *index) replaceOperation(c *change) {
	was, is := c.old.operationID(), c.now.operationID()
	if was == is {
		return
	}
	if was != 0 {
		x.byOperation.Delete(uint64(was))
	}
	if is != 0 {
		x.byOperation.Set(uint64(is), c.key)
	}
}
