package fsm

import (
	"slices"

	"github.com/tidwall/btree"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

// index is what can be derived from the records: it is neither hashed nor
// written to dumps. Every field is a pure function of the records, so that
// a state that was restored decides as one that was replayed.
type index struct {
	byNode         *btree.BTreeG[nodeVolume]
	teardowns      *btree.BTreeG[nodeVolume] // per node that has a pending teardown
	waitingForPeer *btree.BTreeG[nodeVolume] // per host that is waited for: volumes with a replica that waits for its peer
	inRepair       *btree.Map[uint64, uuid]  // see VolumesInRepair; by the index that created it
	byOperation    *btree.Map[uint64, uuid]
	byCreation     *btree.Map[uint64, *storedVolume] // by the index that created it
	pools          *btree.Map[string, poolUse]
	publications   *btree.Map[string, int]   // per node
	minors         *btree.Map[uint32, uuid]  // of replicated volumes
	freeMinors     *btree.Set[uint32]        // minors below nextMinor that no volume has
	nextMinor      uint32                    // no volume ever had this minor, or a higher one
	ports          *btree.BTreeG[portBitmap] // per host
	unsettled      *btree.Set[string]        // volumes and groups whose relation is not settled
}

// nodeVolume relates a host to a volume of which it has something. A host's volumes
// are in order of creation, as new ones then come at the end, where the tree is warm.
type nodeVolume struct {
	node    NodeID
	created uint64
	volume  uuid
}

func (p nodeVolume) before(o nodeVolume) bool {
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
		byNode:         ordered(nodeVolume.before),
		teardowns:      ordered(nodeVolume.before),
		waitingForPeer: ordered(nodeVolume.before),
		inRepair:       new(btree.Map[uint64, uuid]),
		byOperation:    new(btree.Map[uint64, uuid]),
		byCreation:     new(btree.Map[uint64, *storedVolume]),
		pools:          new(btree.Map[string, poolUse]),
		publications:   new(btree.Map[string, int]),
		minors:         new(btree.Map[uint32, uuid]),
		freeMinors:     new(btree.Set[uint32]),
		nextMinor:      firstMinor,
		ports:          ordered(portBitmap.before),
		unsettled:      new(btree.Set[string]),
	}
}

func (x *index) copy() index {
	return index{
		byNode:         x.byNode.Copy(),
		teardowns:      x.teardowns.Copy(),
		waitingForPeer: x.waitingForPeer.Copy(),
		inRepair:       x.inRepair.Copy(),
		byOperation:    x.byOperation.Copy(),
		byCreation:     x.byCreation.Copy(),
		pools:          x.pools.Copy(),
		publications:   x.publications.Copy(),
		minors:         x.minors.Copy(),
		freeMinors:     x.freeMinors.Copy(),
		nextMinor:      x.nextMinor,
		ports:          x.ports.Copy(),
		unsettled:      x.unsettled.Copy(),
	}
}

// volumeChange is a volume's old and new value, either of them nil, with the nodes that
// are involved before and after.
type volumeChange struct {
	key                     uuid
	before, after           *storedVolume
	nodesBefore, nodesAfter []NodeID
}

// replace moves the index from a volume's old value to its new one.
func (x *index) replace(c *volumeChange) {
	x.replaceNodes(c)
	x.replaceReservations(c.before, c.after)
	x.replacePublications(c.before, c.after)
	x.replaceOperation(c)
	x.replaceMinor(c)
	x.replacePorts(c)
	x.replaceTeardowns(c)
	x.replaceWaitingForPeer(c)
	x.replaceInRepair(c)
	x.replaceUnsettled(c)
	if c.after != nil {
		x.byCreation.Set(c.after.Created.Index, c.after)
	} else {
		x.byCreation.Delete(c.before.Created.Index)
	}
}

func (x *index) replaceNodes(c *volumeChange) {
	for _, node := range c.nodesBefore {
		if !slices.Contains(c.nodesAfter, node) {
			x.byNode.Delete(nodeVolume{node: node, created: c.before.Created.Index})
		}
	}
	for _, node := range c.nodesAfter {
		if !slices.Contains(c.nodesBefore, node) {
			x.byNode.Set(nodeVolume{node: node, created: c.after.Created.Index, volume: c.key})
		}
	}
}

func (x *index) replaceReservations(old, updated *storedVolume) {
	if old != nil && updated != nil && old.Crypt.deviceBytes(old.Size) == updated.Crypt.deviceBytes(updated.Size) && slices.EqualFunc(old.Replicas, updated.Replicas, sameReservation) {
		return
	}
	old.eachReservation(func(pool PoolID, size int64) { x.reserve(pool, -size, poolUse{volumes: -1}) })
	updated.eachReservation(func(pool PoolID, size int64) { x.reserve(pool, size, poolUse{volumes: 1}) })
}

func sameReservation(a, b Replica) bool { return a.Pool == b.Pool && a.State == b.State }

// reserve changes what is reserved in a pool, by so many bytes for so many volumes or
// snapshots.
func (x *index) reserve(pool PoolID, size int64, counts poolUse) {
	if size < 0 && plantedbug.Is(plantedbug.ReserveLeaked) {
		return
	}
	use, _ := x.pools.Get(string(pool))
	use.reserved += size
	use.volumes += counts.volumes
	use.snapshots += counts.snapshots
	if use == (poolUse{}) {
		x.pools.Delete(string(pool))
		return
	}
	x.pools.Set(string(pool), use)
}

func (x *index) replacePublications(old, updated *storedVolume) {
	for _, p := range old.publications() {
		x.countPublication(&p, -1)
	}
	for _, p := range updated.publications() {
		x.countPublication(&p, 1)
	}
}

// countPublication counts what an orchestrator may count: a reclaim is not among it.
func (x *index) countPublication(p *Publication, by int) {
	if p.Reclaim {
		return
	}
	n, _ := x.publications.Get(string(p.Node))
	if n+by == 0 {
		x.publications.Delete(string(p.Node))
		return
	}
	x.publications.Set(string(p.Node), n+by)
}

// replaceMinor: a volume has a minor while it is replicated, and after a conversion that was undone until its
// hosts have nothing of that left.
func (x *index) replaceMinor(c *volumeChange) {
	before, after := c.before.minor(), c.after.minor()
	if before == after {
		return
	}
	if before != 0 {
		x.minors.Delete(before)
		x.freeMinors.Insert(before)
	}
	if after != 0 {
		x.takeMinor(after)
		x.minors.Set(after, c.key)
	}
}

// minor is the volume's, 0 where it has none.
func (r *storedVolume) minor() uint32 {
	if replication := r.onHosts(); replication != nil {
		return replication.Minor
	}
	return 0
}

// onHosts is the replication that a host of the volume has, or has the rest of.
func (r *storedVolume) onHosts() *Replication {
	switch {
	case r == nil:
		return nil
	case r.Replication != nil:
		return r.Replication
	}
	return r.Unconverted.replication()
}

// setUnsettled keeps a relation in the index while later entries may settle it.
func (x *index) setUnsettled(owner string, r *Relation) {
	if r.isUnsettled() {
		x.unsettled.Insert(owner)
	} else {
		x.unsettled.Delete(owner)
	}
}

func (x *index) replaceUnsettled(c *volumeChange) {
	switch {
	case c.after != nil:
		x.setUnsettled(string(c.after.ID), c.after.Relation)
	case c.before != nil:
		x.setUnsettled(string(c.before.ID), nil)
	}
}

// takeMinor takes the minor from the free ones, so that the lowest is found without a
// scan.
func (x *index) takeMinor(minor uint32) {
	for ; x.nextMinor < minor; x.nextMinor++ {
		x.freeMinors.Insert(x.nextMinor)
	}
	if x.nextMinor == minor {
		x.nextMinor++
		return
	}
	x.freeMinors.Delete(minor)
}

// lowestMinor is the lowest minor that no volume has.
func (x *index) lowestMinor() uint32 {
	if minor, ok := x.freeMinors.Min(); ok {
		return minor
	}
	return x.nextMinor
}

func (x *index) replaceTeardowns(c *volumeChange) {
	for _, t := range c.before.teardowns() {
		x.teardowns.Delete(nodeVolume{node: t.Node, created: c.before.Created.Index})
	}
	for _, t := range c.after.teardowns() {
		x.teardowns.Set(nodeVolume{node: t.Node, created: c.after.Created.Index, volume: c.key})
	}
}

func (x *index) replaceWaitingForPeer(c *volumeChange) {
	if c.before.waitingForPeer() {
		for _, node := range c.nodesBefore {
			x.waitingForPeer.Delete(nodeVolume{node: node, created: c.before.Created.Index})
		}
	}
	if c.after.waitingForPeer() {
		for _, node := range c.nodesAfter {
			x.waitingForPeer.Set(nodeVolume{node: node, created: c.after.Created.Index, volume: c.key})
		}
	}
}

func (x *index) replaceInRepair(c *volumeChange) {
	before, after := c.before.inRepair(), c.after.inRepair()
	switch {
	case before && !after:
		x.inRepair.Delete(c.before.Created.Index)
	case after && !before:
		x.inRepair.Set(c.after.Created.Index, c.key)
	}
}

func (x *index) replaceOperation(c *volumeChange) {
	var ids [2][4]OperationID
	before, after := c.before.appendOperationIDs(ids[0][:0]), c.after.appendOperationIDs(ids[1][:0])
	if slices.Equal(before, after) {
		return
	}
	for _, id := range before {
		x.byOperation.Delete(uint64(id))
	}
	for _, id := range after {
		x.byOperation.Set(uint64(id), c.key)
	}
}
