package records

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// sequenceReserve is how many sequence numbers one write of the record reserves.
const sequenceReserve = 64

// journal is a record and where it lies.
type RecordFile struct {
	VolumeRecord
	file     *SlotFile
	sequence uint64 // the last number given
}

const recordSuffix = ".rec"

func recordPath(dir string, id fsm.VolumeID) string {
	return filepath.Join(dir, volumesDir, string(id)+recordSuffix)
}

// RecordedVolumes lists the volumes that have a record.
func RecordedVolumes(dir string) (ids []fsm.VolumeID, err error) {
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

// OpenRecordFile reads a volume's record. What is not there, or was never whole,
// announced nothing.
func OpenRecordFile(dir string, id fsm.VolumeID) (*RecordFile, error) {
	file, content, err := openSlotFile(recordPath(dir, id))
	if err != nil {
		return nil, err
	}
	j := &RecordFile{file: file, VolumeRecord: VolumeRecord{Volume: id}}
	if content != nil {
		if err := json.Unmarshal(content, &j.VolumeRecord); err != nil {
			return nil, fmt.Errorf("read the record of %s: %w", id, err)
		}
	}
	j.sequence = j.SequenceLimit
	return j, nil
}

// NextSequence gives a number above all that this host gave and the log applied.
// Numbers are reserved with the next write; a caller that needs no write asks save.
func (j *RecordFile) NextSequence(applied uint64) uint64 {
	j.sequence = max(j.sequence, applied) + 1
	return j.sequence
}

// MustReserve tells whether numbers were given that no write reserved.
func (j *RecordFile) MustReserve() bool { return j.sequence > j.SequenceLimit }

// OnDisk tells whether the record was ever written.
func (j *RecordFile) OnDisk() bool { return j.file.exists }

// Remove forgets the record.
func (j *RecordFile) Remove() error { return j.file.Remove() }

// Save writes the record. Without sync, a crash of the host may undo it: only for
// what is then said once more in vain.
func (j *RecordFile) Save(sync bool) error {
	if j.MustReserve() {
		j.SequenceLimit = j.sequence + sequenceReserve
	}
	text, err := json.Marshal(&j.VolumeRecord)
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", j.Volume, err)
	}
	return j.file.write(text, sync)
}
