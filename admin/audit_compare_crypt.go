package admin

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// compareEncryption compares mappings, LUKS headers and their copies with the volume's encryption. What the
// host did not list or could not read is not known, and never a finding.
func (c *comparison) compareEncryption(pub *fsm.Publication) {
	if c.volume.Crypt == nil {
		c.addEach(&c.orphans, kindMapping, c.paths(kindMapping))
		c.addEach(&c.orphans, kindBackup, c.paths(kindBackup))
		return
	}
	c.compareMapping(pub)
	c.compareBackup(pub)
	c.compareHeader()
}

// compareMapping: a volume has one mapping where it is staged, and none elsewhere.
func (c *comparison) compareMapping(pub *fsm.Publication) {
	have := c.paths(kindMapping)
	switch {
	case hasPendingTeardown(c.volume, c.node):
		c.addEach(&c.pending, kindMapping, have)
	case pub == nil || pub.Staging == nil:
		c.addEach(&c.orphans, kindMapping, have)
	case !c.isStaged(pub): // it may be there already
	case len(have) == 0 && c.encryption:
		c.add(&c.missing, kindMapping, "")
	default:
		c.checkMapping()
	}
}

// isStaged tells whether the host reported the volume staged in its current boot.
func (c *comparison) isStaged(pub *fsm.Publication) bool {
	return pub != nil && pub.Staging != nil && pub.Staging.Done && pub.Staging.Boot == c.node.Boot
}

// checkMapping compares a staged volume's mapping: it is above the volume's device, and of the header that was made.
func (c *comparison) checkMapping() {
	for _, item := range c.items {
		if item.Kind != kindMapping {
			continue
		}
		if item.WrongDevice != "" {
			c.addWrong(kindMapping, item.Path, "above "+item.WrongDevice+", which is not the volume's device")
		}
		if item.HeaderRead && item.HeaderUUID != c.volume.Crypt.UUID {
			c.addWrong(kindMapping, item.Path, c.headerDetail(item.HeaderUUID))
		}
	}
}

// compareBackup: who opened the volume keeps a copy of the header, also when the volume is not staged any more.
func (c *comparison) compareBackup(pub *fsm.Publication) {
	found := false
	for _, item := range c.items {
		if item.Kind != kindBackup {
			continue
		}
		found = true
		if c.isHeaderMade() && item.HeaderRead && item.HeaderUUID != c.volume.Crypt.UUID {
			c.addWrong(kindBackup, item.Path, c.headerDetail(item.HeaderUUID))
		}
	}
	if !found && c.encryption && c.isStaged(pub) && !hasPendingTeardown(c.volume, c.node) {
		c.add(&c.missing, kindBackup, "")
	}
}

// compareHeader: an image that has the volume's data has the header that was made.
func (c *comparison) compareHeader() {
	if !c.isHeaderMade() || !c.isCurrent() {
		return
	}
	for _, item := range c.items {
		if item.Kind == kindImage && item.HeaderRead && item.HeaderUUID != c.volume.Crypt.UUID {
			c.addWrong(kindHeader, item.Path, c.headerDetail(item.HeaderUUID))
		}
	}
}

// isHeaderMade tells whether the header is as the log has it: made, and not a clone's that gets a UUID.
func (c *comparison) isHeaderMade() bool {
	return c.volume.Crypt.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED && !c.volume.Crypt.Cloned
}

// isCurrent tells whether the host's replica has the volume's data.
func (c *comparison) isCurrent() bool {
	if c.volume.Replication == nil {
		return true
	}
	r := c.volume.ActiveReplica(c.node.Host)
	return r != nil && r.ReplicaSync != nil && r.UpToDate && !r.Outdated && r.DiskFailed == 0
}

func (c *comparison) headerDetail(found string) string {
	if found == "" {
		return fmt.Sprintf("no LUKS header, and not %s that was made", c.volume.Crypt.UUID)
	}
	return fmt.Sprintf("of LUKS header %s, and not of %s that was made", found, c.volume.Crypt.UUID)
}

func (c *comparison) addWrong(kind, path, detail string) {
	c.wrong = append(c.wrong, finding{node: c.node.ID, kind: kind, id: string(c.volume.ID), path: path, detail: detail})
}
