package fsm

import (
	"slices"

	"github.com/tidwall/btree"
)

// index is what can be derived from the records: it is neither hashed nor
// written to snapshots. Every field is a pure function of the records, so that
// a state that was restored decides as one that was replayed.
type index struct {
	byName       *btree.Map[string, VolumeID] // live volumes (I1)
	byNode       *btree.BTreeG[placed]
	byOperation  *btree.Map[uint64, VolumeID]
	byCreation   *btree.Map[uint64, *volumeRecord] // by the index that created it
	pools        *btree.Map[string, poolUse]
	publications *btree.Map[string, int] // per node
	answers      *btree.Map[uint64, *answer]
}

// placed says that a host keeps, or owes, something of a volume.
type placed struct {
	node   NodeID
	volume VolumeID
}

func (p placed) before(o placed) bool {
	if p.node != o.node {
		return p.node < o.node
	}
	return p.volume < o.volume
}

// poolUse is what a pool's volumes reserve.
type poolUse struct {
	reserved int64
	volumes  int
}

func newIndex() index {
	return index{
		byName:       new(btree.Map[string, VolumeID]),
		byNode:       btree.NewBTreeGOptions(placed.before, btree.Options{NoLocks: true}),
		byOperation:  new(btree.Map[uint64, VolumeID]),
		byCreation:   new(btree.Map[uint64, *volumeRecord]),
		pools:        new(btree.Map[string, poolUse]),
		publications: new(btree.Map[string, int]),
		answers:      new(btree.Map[uint64, *answer]),
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
		answers:      x.answers.Copy(),
	}
}

// replace moves the index from a volume's old value to its new one. Either may be nil.
func (x *index) replace(old, now *volumeRecord) {
	x.replaceName(old, now)
	x.replaceHolders(old, now)
	x.replaceReservations(old, now)
	x.replacePublications(old, now)
	x.replaceOperation(old, now)
	if now != nil {
		x.byCreation.Set(now.Created.Index, now)
	} else {
		x.byCreation.Delete(old.Created.Index)
	}
}

func (x *index) replaceName(old, now *volumeRecord) {
	switch was, is := old.liveName(), now.liveName(); {
	case was == is:
	case is != "":
		x.byName.Set(is, now.ID)
	default:
		x.byName.Delete(was)
	}
}

func (x *index) replaceHolders(old, now *volumeRecord) {
	was, is := old.holders(), now.holders()
	for _, node := range was {
		if !slices.Contains(is, node) {
			x.byNode.Delete(placed{node, old.ID})
		}
	}
	for _, node := range is {
		if !slices.Contains(was, node) {
			x.byNode.Set(placed{node, now.ID})
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

func (x *index) replaceOperation(old, now *volumeRecord) {
	was, is := old.operationID(), now.operationID()
	if was == is {
		return
	}
	if was != 0 {
		x.byOperation.Delete(uint64(was))
	}
	if is != 0 {
		x.byOperation.Set(uint64(is), now.ID)
	}
}
