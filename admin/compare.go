package admin

import (
	"path/filepath"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Kinds of what an inventory finds.
const (
	kindImage      = "image"      // a volume's file
	kindUnfinished = "unfinished" // a file on its way to become one
	kindLoop       = "loop"       // a loop device of a file below a pool
	kindMount      = "mount"      // a mount of such a device, or a bind of it
	kindSnapshot   = "snapshot"   // a snapshot's file
	kindResource   = "resource"   // a replicated volume's resource, in the kernel or in files
)

// finding is one difference between a host and the state.
type finding struct {
	node fsm.NodeID
	kind string
	id   string
	path string
}

// findings are all differences of a round.
type findings struct{ orphans, missing, pending []finding }

// compare adds what differs on one host and answers how many replicas and snapshots
// it looked for.
func (f *findings) compare(st *fsm.State, n *fsm.Node, items []Item) (checked uint64) {
	held := map[string][]Item{}
	for _, item := range items {
		held[item.id()] = append(held[item.id()], item)
	}
	dir := folderOf(items, kindImage, "volumes")
	for v := range st.Volumes("") {
		c := comparison{findings: f, node: n, volume: v, items: held[string(v.ID)], dir: dir}
		if replica := replicaOn(v, n); replica != nil && !givenUp(v, replica) {
			checked++
			c.replica(replica)
			delete(held, string(v.ID))
		} else if owesTeardown(v, n) {
			c.all(&f.pending, kindMount)
			delete(held, string(v.ID))
		}
	}
	checked += f.snapshots(st, n, held, folderOf(items, kindSnapshot, "snapshots"))
	for _, rest := range held {
		for _, item := range rest {
			f.orphans = append(f.orphans, finding{n.ID, item.Kind, item.id(), item.Path})
		}
	}
	return checked
}

// owed adds what a host owes that cannot be asked: work under way, and obligations (S18).
func (f *findings) owed(st *fsm.State, n *fsm.Node) {
	for v := range st.Volumes("") {
		c := comparison{findings: f, node: n, volume: v, dir: "volumes"}
		if replica := replicaOn(v, n); replica != nil && !givenUp(v, replica) && (transitional(v) || moving(replica)) {
			c.all(&f.pending, kindImage)
		}
		if owesTeardown(v, n) {
			c.all(&f.pending, kindMount)
		}
	}
	f.owedSnapshots(st, n)
}

// transitional: the log itself says that the device may or may not be there.
func transitional(v *fsm.Volume) bool {
	switch v.Phase.(type) {
	case fsm.Creating, fsm.Deleting, fsm.Failed:
		return true
	case fsm.Ready:
		return false
	}
	return false
}

// comparison is one volume on one host.
type comparison struct {
	*findings
	node   *fsm.Node
	volume *fsm.Volume
	items  []Item
	dir    string // where the host keeps images
}

func (c *comparison) add(to *[]finding, kind, path string) {
	*to = append(*to, finding{c.node.ID, kind, string(c.volume.ID), path})
}

// all adds every item found, or the one that would be there.
func (c *comparison) all(to *[]finding, kind string) {
	for _, item := range c.items {
		c.add(to, item.Kind, item.Path)
	}
	if len(c.items) == 0 {
		c.add(to, kind, c.likelyPath(kind))
	}
}

func (c *comparison) likelyPath(kind string) string {
	if kind != kindImage {
		return ""
	}
	return filepath.Join(c.dir, string(c.volume.ID)+".img")
}

// replica compares one replica with what its host holds of it.
func (c *comparison) replica(r *fsm.Replica) {
	if transitional(c.volume) || moving(r) {
		if r.State != fsm.ReplicaGone || len(c.items) > 0 {
			c.all(&c.pending, kindImage)
		}
		return
	}
	if !slices.ContainsFunc(c.items, func(i Item) bool { return i.Kind == kindImage }) {
		c.add(&c.missing, kindImage, c.likelyPath(kindImage))
	}
	c.resource()
	c.uses()
}

// uses compares loop devices and mounts with the publication: a staged volume
// has one loop device, and one mount for each path; others have none.
func (c *comparison) uses() {
	pub := publicationOn(c.volume, c.node)
	loops := c.paths(kindLoop)
	switch {
	case c.volume.Replication != nil: // DRBD keeps the device below open, published or not
		c.each(&c.orphans, kindLoop, loops[min(1, len(loops)):])
	case owesTeardown(c.volume, c.node):
		c.each(&c.pending, kindLoop, loops)
	case pub == nil || pub.Staging == nil:
		c.each(&c.orphans, kindLoop, loops)
	case len(loops) > 1:
		c.each(&c.orphans, kindLoop, loops[1:])
	case len(loops) == 0 && pub.Staging.Done && pub.Staging.Boot == c.node.Boot:
		c.add(&c.missing, kindLoop, "")
	}
	c.each(&c.orphans, kindUnfinished, c.paths(kindUnfinished))
	c.mounts(pub)
}

func (c *comparison) mounts(pub *fsm.Publication) {
	want, done := mountsOf(pub, c.node)
	have := c.paths(kindMount)
	extra := slices.DeleteFunc(slices.Clone(have), func(p string) bool { return slices.Contains(want, p) })
	switch {
	case owesTeardown(c.volume, c.node):
		c.each(&c.pending, kindMount, extra)
	case len(have) > len(want): // a path may be spelled otherwise here than in the log, so only a surplus counts
		c.each(&c.orphans, kindMount, extra)
	case len(have) < len(done):
		lost := slices.DeleteFunc(done, func(p string) bool { return slices.Contains(have, p) })
		c.each(&c.missing, kindMount, lost)
	}
}

func (c *comparison) each(to *[]finding, kind string, paths []string) {
	for _, p := range paths {
		c.add(to, kind, p)
	}
}

func (c *comparison) paths(kind string) []string {
	var out []string
	for _, item := range c.items {
		if item.Kind == kind {
			out = append(out, item.Path)
		}
	}
	slices.Sort(out)
	return out
}

// mountsOf is every path that may be mounted under a publication, and those that
// were reported done in this boot. A raw volume is not mounted where it is staged.
func mountsOf(pub *fsm.Publication, n *fsm.Node) (want, done []string) {
	if pub == nil || pub.Staging == nil {
		return nil, nil
	}
	now := pub.Staging.Boot == n.Boot
	if !pub.Staging.Capability.Block {
		want = append(want, pub.Staging.Path)
		if pub.Staging.Done && now {
			done = append(done, pub.Staging.Path)
		}
	}
	for _, t := range pub.Targets {
		want = append(want, t.Path)
		if t.Done && now {
			done = append(done, t.Path)
		}
	}
	return want, done
}

// replicaOn is the host's replica, one that is gone only where there is no other.
func replicaOn(v *fsm.Volume, n *fsm.Node) (found *fsm.Replica) {
	for i, r := range v.Replicas {
		if r.Node == n.ID && r.Host == n.Host && (found == nil || found.State == fsm.ReplicaGone) {
			found = &v.Replicas[i]
		}
	}
	return found
}

func publicationOn(v *fsm.Volume, n *fsm.Node) *fsm.Publication {
	for _, p := range publications(v) {
		if p.Node == n.ID && p.Host == n.Host {
			return &p
		}
	}
	return nil
}

func owesTeardown(v *fsm.Volume, n *fsm.Node) bool {
	return slices.ContainsFunc(v.Teardowns, func(t fsm.Teardown) bool { return t.Node == n.ID && t.Host == n.Host })
}

// folderOf is where a host keeps things of a kind, told by one of them; else the
// folder's usual name.
func folderOf(items []Item, kind, usual string) string {
	for _, item := range items {
		if item.Kind == kind {
			return filepath.Dir(item.Path)
		}
	}
	return usual
}
