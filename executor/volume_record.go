package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// sequenceReserve is how many sequence numbers one write of the record reserves.
const sequenceReserve = 64

// record is what the host keeps of one volume. It is synced before what it
// announces is done. It can refuse and take down, never permit (S2).
type volumeRecord struct {
	Volume fsm.VolumeID `json:"volume"`
	Pool   fsm.PoolID   `json:"pool"`
	// Epoch is the highest publication that the host acted under; lower ones are refused.
	Epoch fsm.Epoch `json:"epoch"`
	// Floor is the log index of the last grant; wishes from before it are not acted on (S14).
	Floor fsm.Epoch `json:"floor"`
	// SequenceLimit bounds the numbers that were given to records so far (S16).
	SequenceLimit uint64 `json:"sequence_limit"`
	// Formatting is the identity of the filesystem that this host began to make: its
	// unfinished pieces on the device are its own (S15).
	Formatting string `json:"formatting,omitempty"`
	// Staging is set from before the device is given out until nothing of it is up.
	Staging *stagingRecord `json:"staging,omitempty"`
	Targets []targetRecord `json:"targets,omitempty"`
	// PendingTeardowns is the outbox: what was taken down and the log has not heard (S16).
	PendingTeardowns []pendingTeardown `json:"owed,omitempty"`
	// Size is what the image had when it was given out or grown last, in bytes: one
	// that is smaller lost something, and is never grown over.
	Size int64 `json:"size,omitempty"`
	// FilesystemFor is the size of the device, in bytes, to which the filesystem was made or grown.
	FilesystemFor int64 `json:"grown_to,omitempty"`
	// MayBeLimited is set before limits are put in force, until they are taken off the device.
	MayBeLimited bool `json:"limited,omitempty"`
	// MayBeTorn is set while the image is made from a volume: one that is there then may
	// be torn, if the source's freeze did not hold (S19). It was never reported.
	MayBeTorn bool `json:"copying,omitempty"`
	// Replica is set for a replicated volume, from before its device below is opened.
	Replica *replicaRecord `json:"replica,omitempty"`
	// ReportedCondition is the abnormal condition that the log was told last, empty when none.
	ReportedCondition string `json:"ailing,omitempty"`
}

// staging is where and how the host brings the volume up.
type stagingRecord struct {
	Epoch fsm.Epoch `json:"epoch"`
	Path  string    `json:"path"`
	Block bool      `json:"block"`
}

// target is where the host binds the volume.
type targetRecord struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only"`
	// MountGroup is the group id that everything on the filesystem was given to for it.
	MountGroup string `json:"group,omitempty"`
}

// pendingTeardown is one record of a tear-down: of a target, or of everything when Target is empty.
type pendingTeardown struct {
	Sequence uint64    `json:"sequence"`
	Epoch    fsm.Epoch `json:"epoch"`
	Target   string    `json:"target,omitempty"`
}

// empty tells whether nothing but counters is in the record.
func (r *volumeRecord) empty() bool {
	return r.Staging == nil && len(r.Targets) == 0 && len(r.PendingTeardowns) == 0 && r.Replica == nil
}

// owes tells whether the outbox has a record of it already.
func (r *volumeRecord) hasPendingTeardown(o pendingTeardown) bool {
	return slices.ContainsFunc(r.PendingTeardowns, func(teardown pendingTeardown) bool { return teardown.Target == o.Target && teardown.Epoch == o.Epoch })
}

func (r *volumeRecord) target(path string) *targetRecord {
	for i := range r.Targets {
		if r.Targets[i].Path == path {
			return &r.Targets[i]
		}
	}
	return nil
}

func (r *volumeRecord) withoutTarget(path string) []targetRecord {
	return slices.DeleteFunc(slices.Clone(r.Targets), func(t targetRecord) bool { return t.Path == path })
}

// journal is a record and where it lies.
type recordFile struct {
	volumeRecord
	file     *slotFile
	sequence uint64 // the last number given
}

const recordSuffix = ".rec"

func recordPath(dir string, id fsm.VolumeID) string {
	return filepath.Join(dir, volumesDir, string(id)+recordSuffix)
}

// recordedVolumes lists the volumes that have a record.
func recordedVolumes(dir string) (ids []fsm.VolumeID, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, volumesDir))
	if err != nil {
		return nil, fmt.Errorf("read the host's records: %w", err)
	}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), recordSuffix); ok && fsm.VolumeID(name).Valid() {
			ids = append(ids, fsm.VolumeID(name))
		}
	}
	return ids, nil
}

// openRecordFile reads a volume's record. What is not there, or was never whole,
// announced nothing.
func openRecordFile(dir string, id fsm.VolumeID) (*recordFile, error) {
	file, content, err := openSlotFile(recordPath(dir, id))
	if err != nil {
		return nil, err
	}
	j := &recordFile{file: file, volumeRecord: volumeRecord{Volume: id}}
	if content != nil {
		if err := json.Unmarshal(content, &j.volumeRecord); err != nil {
			return nil, fmt.Errorf("read the record of %s: %w", id, err)
		}
	}
	j.sequence = j.SequenceLimit
	return j, nil
}

// nextSequence gives a number above all that this host gave and the log applied.
// Numbers are reserved with the next write; a caller that needs no write asks save.
func (j *recordFile) nextSequence(applied uint64) uint64 {
	j.sequence = max(j.sequence, applied) + 1
	return j.sequence
}

// mustReserve tells whether numbers were given that no write reserved.
func (j *recordFile) mustReserve() bool { return j.sequence > j.SequenceLimit }

// onDisk tells whether the record was ever written.
func (j *recordFile) onDisk() bool { return j.file.exists }

// remove forgets the record.
func (j *recordFile) remove() error { return j.file.remove() }

// save writes the record. Without sync, a crash of the host may undo it: only for
// what is then said once more in vain.
func (j *recordFile) save(sync bool) error {
	if j.mustReserve() {
		j.SequenceLimit = j.sequence + sequenceReserve
	}
	text, err := json.Marshal(&j.volumeRecord)
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", j.Volume, err)
	}
	return j.file.write(text, sync)
}
