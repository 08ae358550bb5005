package fsm

import (
	"slices"

	"github.com/tidwall/btree"
)

// index is what can be derived from the records: it is neither hashed nor
// written to snapshots. Every field is a pure function of the records, so that
// a state that was restored decides as one that was replayed.
type index struct {
	byNode       *btree.BTreeG[placed]
	owing        *btree.BTreeG[placed]    // per node that owes the end of a publication
	waiting      *btree.BTreeG[placed]    // per holder: volumes with a replica that waits for its peer
	unsettled    *btree.Map[uint64, uuid] // by the index that created it
	byOperation  *btree.Map[uint64, uuid]
	byCreation   *btree.Map[uint64, *volumeRecord] // by the index that created it
	pools        *btree.Map[string, poolUse]
	publications *btree.Map[string, int]  // per node
	minors       *btree.Map[uint32, uuid] // of replicated volumes
	free         *btree.Set[uint32]       // minors below above that no volume has
	above        uint32                   // no volume ever had this minor, or a higher one
	ports        *btree.BTreeG[portWord]  // per host
}

// placed says that a host keeps, or owes, something of a volume. A host's volumes
// are in order of creation, as new ones then come at the end, where the tree is warm.
type placed struct {
	node    NodeID
	created uint64
	volume  uuid
}

func (p placed) before(o placed) bool {
	if p.created != o.created && p.node == o.node {
		return p.created < o.created
	}
	return p.node < o.node
}

// poolUse is what a pool's volumes and snapshots reserve.
type poolUse struct {
	reserved  int64
	volumes   int
	snapshots int
}

// ordered is a copy-on-write tree. The state has one owner, so it takes no locks.
func ordered[T any](before func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})
}

func newIndex() index {
	return index{
		byNode:       ordered(placed.before),
		owing:        ordered(placed.before),
		waiting:      ordered(placed.before),
		unsettled:    new(btree.Map[uint64, uuid]),
		byOperation:  new(btree.Map[uint64, uuid]),
		byCreation:   new(btree.Map[uint64, *volumeRecord]),
		pools:        new(btree.Map[string, poolUse]),
		publications: new(btree.Map[string, int]),
		minors:       new(btree.Map[uint32, uuid]),
		free:         new(btree.Set[uint32]),
		above:        firstMinor,
		ports:        ordered(portWord.before),
	}
}

func (x *index) copy() index {
	return index{
		byNode:       x.byNode.Copy(),
		owing:        x.owing.Copy(),
		waiting:      x.waiting.Copy(),
		unsettled:    x.unsettled.Copy(),
		byOperation:  x.byOperation.Copy(),
		byCreation:   x.byCreation.Copy(),
		pools:        x.pools.Copy(),
		publications: x.publications.Copy(),
		minors:       x.minors.Copy(),
		free:         x.free.Copy(),
		above:        x.above,
		ports:        x.ports.Copy(),
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
	x.replaceHolders(c)
	x.replaceReservations(c.old, c.now)
	x.replacePublications(c.old, c.now)
	x.replaceOperation(c)
	x.replaceMinor(c)
	x.replacePorts(c)
	x.replaceOwing(c)
	x.replaceWaiting(c)
	x.replaceUnsettled(c)
	if c.now != nil {
		x.byCreation.Set(c.now.Created.Index, c.now)
	} else {
		x.byCreation.Delete(c.old.Created.Index)
	}
}

func (x *index) replaceHolders(c *change) {
	for _, node := range c.was {
		if !slices.Contains(c.is, node) {
			x.byNode.Delete(placed{node: node, created: c.old.Created.Index})
		}
	}
	for _, node := range c.is {
		if !slices.Contains(c.was, node) {
			x.byNode.Set(placed{node: node, created: c.now.Created.Index, volume: c.key})
		}
	}
}

func (x *index) replaceReservations(old, now *volumeRecord) {
	if old != nil && now != nil && old.Size == now.Size && slices.Equal(old.Replicas, now.Replicas) {
		return
	}
	old.eachReservation(func(pool PoolID, size int64) { x.reserve(pool, -size, poolUse{volumes: -1}) })
	now.eachReservation(func(pool PoolID, size int64) { x.reserve(pool, size, poolUse{volumes: 1}) })
}

// reserve changes what a pool keeps room for, by so many bytes for so many things.
func (x *index) reserve(pool PoolID, size int64, things poolUse) {
	use, _ := x.pools.Get(string(pool))
	use.reserved += size
	use.volumes += things.volumes
	use.snapshots += things.snapshots
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

// replaceMinor: a replicated volume keeps its minor for life, so only its coming and
// going count.
func (x *index) replaceMinor(c *change) {
	if c.now == nil && c.old.Replication != nil {
		x.minors.Delete(c.old.Replication.Minor)
		x.free.Insert(c.old.Replication.Minor)
	}
	if c.now != nil && c.now.Replication != nil && c.old == nil {
		x.takeMinor(c.now.Replication.Minor)
		x.minors.Set(c.now.Replication.Minor, c.key)
	}
}

// takeMinor keeps the free minors, so that the lowest is found without a look at all.
func (x *index) takeMinor(minor uint32) {
	for ; x.above < minor; x.above++ {
		x.free.Insert(x.above)
	}
	if x.above == minor {
		x.above++
		return
	}
	x.free.Delete(minor)
}

// lowestMinor is the lowest that no volume has.
func (x *index) lowestMinor() uint32 {
	if minor, ok := x.free.Min(); ok {
		return minor
	}
	return x.above
}

func (x *index) replaceOwing(c *change) {
	for _, t := range c.old.teardowns() {
		x.owing.Delete(placed{node: t.Node, created: c.old.Created.Index})
	}
	for _, t := range c.now.teardowns() {
		x.owing.Set(placed{node: t.Node, created: c.now.Created.Index, volume: c.key})
	}
}

func (x *index) replaceWaiting(c *change) {
	if c.old.waiting() {
		for _, node := range c.was {
			x.waiting.Delete(placed{node: node, created: c.old.Created.Index})
		}
	}
	if c.now.waiting() {
		for _, node := range c.is {
			x.waiting.Set(placed{node: node, created: c.now.Created.Index, volume: c.key})
		}
	}
}

func (x *index) replaceUnsettled(c *change) {
	was, is := c.old.unsettled(), c.now.unsettled()
	switch {
	case was && !is:
		x.unsettled.Delete(c.old.Created.Index)
	case is && !was:
		x.unsettled.Set(c.now.Created.Index, c.key)
	}
}

func (x *index) replaceOperation(c *change) {
	var ids [2][4]OperationID
	was, is := c.old.appendOperationIDs(ids[0][:0]), c.now.appendOperationIDs(ids[1][:0])
	if slices.Equal(was, is) {
		return
	}
	for _, id := range was {
		x.byOperation.Delete(uint64(id))
	}
	for _, id := range is {
		x.byOperation.Set(uint64(id), c.key)
	}
}
