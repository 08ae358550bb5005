package admin

import (
	"path/filepath"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// The kinds of items in an inventory.
const (
	kindImage      = "image"      // a volume's file
	kindUnfinished = "unfinished" // a volume's or snapshot's file that is still being written
	kindLoop       = "loop"       // a loop device of a file below a pool
	kindMount      = "mount"      // a mount of such a device, or a bind of it
	kindSnapshot   = "snapshot"   // a snapshot's file
	kindResource   = "resource"   // a replicated volume's resource, in the kernel or in configuration files
	kindMapping    = "mapping"    // an encrypted volume's mapping
	kindHeader     = "header"     // the LUKS header on an encrypted volume's image
	kindBackup     = "header_backup"
)

// finding is one difference between a host and the state.
type finding struct {
	node fsm.NodeID
	kind string
	id   string
	path string
	// detail is what is wrong with it; empty for what is too much or missing.
	detail string
}

// findings are all differences that one round found.
type findings struct{ orphans, missing, wrong, pending []finding }

// compareHost adds the differences of one host. It returns how many replicas and snapshots
// it compared.
func (f *findings) compareHost(st *fsm.State, n *fsm.Node, found Inventory) (checked uint64) {
	itemsByID := map[string][]Item{}
	for _, item := range found.Items {
		itemsByID[item.id()] = append(itemsByID[item.id()], item)
	}
	dir := folderOf(found.Items, kindImage, "volumes")
	for v := range st.Volumes("") {
		c := comparison{findings: f, node: n, volume: v, items: itemsByID[string(v.ID)], dir: dir, encryption: found.Encryption}
		if replica := replicaOn(v, n); replica != nil && !isRemoved(v, replica) {
			checked++
			c.compareReplica(replica)
			delete(itemsByID, string(v.ID))
		} else if hasPendingTeardown(v, n) {
			c.addAll(&f.pending, kindMount)
			delete(itemsByID, string(v.ID))
		}
	}
	checked += f.compareSnapshots(st, n, itemsByID, folderOf(found.Items, kindSnapshot, "snapshots"))
	for _, rest := range itemsByID {
		for _, item := range rest {
			f.orphans = append(f.orphans, finding{node: n.ID, kind: item.Kind, id: item.id(), path: item.Path})
		}
	}
	return checked
}

// addPending adds the unfinished work of a host that did not answer: volumes in transition and
// pending teardowns (S18).
func (f *findings) addPending(st *fsm.State, n *fsm.Node) {
	for v := range st.Volumes("") {
		c := comparison{findings: f, node: n, volume: v, dir: "volumes"}
		if replica := replicaOn(v, n); replica != nil && !isRemoved(v, replica) && (inTransition(v) || replicaInTransition(replica) || changesDevice(v, replica)) {
			c.addAll(&f.pending, kindImage)
		}
		if hasPendingTeardown(v, n) {
			c.addAll(&f.pending, kindMount)
		}
	}
	f.addPendingSnapshots(st, n)
}

// inTransition tells whether the volume's phase allows its device to exist or not to exist.
func inTransition(v *fsm.Volume) bool {
	switch v.Phase.(type) {
	case fsm.Creating, fsm.Deleting, fsm.Failed:
		return true
	case fsm.Ready:
		return false
	}
	return false
}

// comparison compares one volume with what one host holds of it.
type comparison struct {
	*findings
	node   *fsm.Node
	volume *fsm.Volume
	items  []Item
	dir    string // the host's directory of images
	// encryption: the host listed its mappings and copies of headers.
	encryption bool
}

func (c *comparison) add(to *[]finding, kind, path string) {
	*to = append(*to, finding{node: c.node.ID, kind: kind, id: string(c.volume.ID), path: path})
}

// addAll adds a finding for every item, or, when there is none, one for the path expected of an image.
func (c *comparison) addAll(to *[]finding, kind string) {
	for _, item := range c.items {
		c.add(to, item.Kind, item.Path)
	}
	if len(c.items) == 0 {
		c.add(to, kind, c.expectedPath(kind))
	}
}

func (c *comparison) expectedPath(kind string) string {
	if kind != kindImage {
		return ""
	}
	return filepath.Join(c.dir, string(c.volume.ID)+".img")
}

// compareReplica compares one replica with what its host holds of it.
func (c *comparison) compareReplica(r *fsm.Replica) {
	if inTransition(c.volume) || replicaInTransition(r) || changesDevice(c.volume, r) {
		switch {
		case isConvertedOn(c.volume, r) && !c.hasImage():
			c.add(&c.missing, kindImage, c.expectedPath(kindImage))
		case r.State != fsm.ReplicaGone || len(c.items) > 0:
			c.addAll(&c.pending, kindImage)
		}
		return
	}
	if !c.hasImage() {
		c.add(&c.missing, kindImage, c.expectedPath(kindImage))
	}
	c.compareResource()
	c.compareDevices()
}

func (c *comparison) hasImage() bool {
	return slices.ContainsFunc(c.items, func(i Item) bool { return i.Kind == kindImage })
}

// compareDevices compares loop devices and mounts with the publication: a staged volume has one
// loop device, and one mount for each path; a volume that is not staged has neither.
func (c *comparison) compareDevices() {
	pub := publicationOn(c.volume, c.node)
	loops := c.paths(kindLoop)
	switch {
	case c.volume.Replication != nil: // DRBD keeps its backing device open, published or not
		c.addEach(&c.orphans, kindLoop, loops[min(1, len(loops)):])
	case hasPendingTeardown(c.volume, c.node):
		c.addEach(&c.pending, kindLoop, loops)
	case pub == nil || pub.Staging == nil:
		c.addEach(&c.orphans, kindLoop, loops)
	case len(loops) > 1:
		c.addEach(&c.orphans, kindLoop, loops[1:])
	case len(loops) == 0 && pub.Staging.Done && pub.Staging.Boot == c.node.Boot:
		c.add(&c.missing, kindLoop, "")
	}
	c.addEach(&c.orphans, kindUnfinished, c.paths(kindUnfinished))
	c.compareMounts(pub)
	c.compareEncryption(pub)
}

func (c *comparison) compareMounts(pub *fsm.Publication) {
	want, done := mountsOf(pub, c.node)
	have := c.paths(kindMount)
	extra := slices.DeleteFunc(slices.Clone(have), func(p string) bool { return slices.Contains(want, p) })
	switch {
	case hasPendingTeardown(c.volume, c.node):
		c.addEach(&c.pending, kindMount, extra)
	case len(have) > len(want): // the kernel may show a path in another form than the log has, so the numbers are compared first
		c.addEach(&c.orphans, kindMount, extra)
	case len(have) < len(done):
		lost := slices.DeleteFunc(done, func(p string) bool { return slices.Contains(have, p) })
		c.addEach(&c.missing, kindMount, lost)
	}
}

func (c *comparison) addEach(to *[]finding, kind string, paths []string) {
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

// mountsOf returns every path that may be mounted under a publication, and those that were
// reported mounted in the host's current boot. A raw block volume has no mount at its staging path.
func mountsOf(pub *fsm.Publication, n *fsm.Node) (want, done []string) {
	if pub == nil || pub.Staging == nil {
		return nil, nil
	}
	sameBoot := pub.Staging.Boot == n.Boot
	if !pub.Staging.Capability.Block {
		want = append(want, pub.Staging.Path)
		if pub.Staging.Done && sameBoot {
			done = append(done, pub.Staging.Path)
		}
	}
	for _, t := range pub.Targets {
		want = append(want, t.Path)
		if t.Done && sameBoot {
			done = append(done, t.Path)
		}
	}
	return want, done
}

// replicaOn returns the host's replica: a removed one (ReplicaGone) only where there is no other.
func replicaOn(v *fsm.Volume, n *fsm.Node) (found *fsm.Replica) {
	for i, r := range v.Replicas {
		if r.Node == n.ID && r.Host == n.Host && (found == nil || found.State == fsm.ReplicaGone) {
			found = &v.Replicas[i]
		}
	}
	return found
}

func publicationOn(v *fsm.Volume, n *fsm.Node) *fsm.Publication {
	for _, p := range v.Publications() {
		if p.Node == n.ID && p.Host == n.Host {
			return &p
		}
	}
	return nil
}

func hasPendingTeardown(v *fsm.Volume, n *fsm.Node) bool {
	return slices.ContainsFunc(v.Teardowns, func(t fsm.Teardown) bool { return t.Node == n.ID && t.Host == n.Host })
}

// folderOf returns the host's directory of one kind of items, taken from the path of any such
// item, else the directory's usual name.
func folderOf(items []Item, kind, fallback string) string {
	for _, item := range items {
		if item.Kind == kind {
			return filepath.Dir(item.Path)
		}
	}
	return fallback
}
