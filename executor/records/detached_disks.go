package records

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// DetachedDisks are the disks that this host detached from their replicas in this boot, so that what was suspended fails (S9),
// by the number of the attachment. Such a disk did not fail: what it lacks is in the bitmaps. It is a file of its own since
// it is written while a volume's record may be locked by what waits for that I/O.
type DetachedDisks struct {
	file *SlotFile

	mu   sync.Mutex // held over a write
	disk detachedRecord
}

type detachedRecord struct {
	Boot        string                  `json:"boot"`
	Attachments map[fsm.VolumeID]uint64 `json:"attachments"`
}

// OpenDetachedDisks reads those of the boot; what was detached in an earlier one is detached no more.
func OpenDetachedDisks(dir, boot string) (*DetachedDisks, error) {
	file, content, err := openSlotFile(filepath.Join(dir, detachedFile))
	if err != nil {
		return nil, err
	}
	d := &DetachedDisks{file: file}
	if content != nil {
		if err := json.Unmarshal(content, &d.disk); err != nil {
			return nil, fmt.Errorf("read %s: %w", file.path, err)
		}
	}
	if d.disk.Boot != boot || d.disk.Attachments == nil {
		d.disk = detachedRecord{Boot: boot, Attachments: map[fsm.VolumeID]uint64{}}
	}
	return d, nil
}

// Attachment is the one that was ended by detaching the volume's disk; 0: none.
func (d *DetachedDisks) Attachment(v fsm.VolumeID) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.disk.Attachments[v]
}

// Record records, synced, that the volume's disk was detached in the attachment.
func (d *DetachedDisks) Record(v fsm.VolumeID, attachment uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if attachment == 0 || d.disk.Attachments[v] == attachment {
		return nil
	}
	if err := d.replace(v, attachment); err != nil {
		return fmt.Errorf("record that the disk of volume %s was detached: %w", v, err)
	}
	return nil
}

// Forget forgets, synced, a disk that was detached in the attachment or a later one.
func (d *DetachedDisks) Forget(v fsm.VolumeID, from uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before := d.disk.Attachments[v]; before == 0 || before < from {
		return nil
	}
	if err := d.replace(v, 0); err != nil {
		return fmt.Errorf("forget which disk of volume %s was detached: %w", v, err)
	}
	return nil
}

// replace writes another attachment of the volume; 0: none. The caller holds mu.
func (d *DetachedDisks) replace(v fsm.VolumeID, attachment uint64) error {
	before := d.disk.Attachments[v]
	d.disk.Attachments[v] = attachment
	if attachment == 0 {
		delete(d.disk.Attachments, v)
	}
	text, err := json.Marshal(d.disk)
	if err == nil {
		err = d.file.write(text, true)
	}
	if err != nil {
		d.disk.Attachments[v] = before
	}
	return err
}
