package journal

import (
	"errors"
	"log/slog"
)

var (
	// ErrConflict: another command is known under this index. Two histories met
	// in one folder; the process must stop (S26).
	ErrConflict = errors.New("another command is journalled under this index")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("the journal is closed")
)

// Options say where the journal is and how much of it is kept.
type Options struct {
	Dir          string // made 0700 when absent
	SegmentBytes int64  // size at which a segment is ended; 16 MiB when zero
	RetainBytes  int64  // whole old segments above this are deleted; 1 GiB when zero
	Logger       *slog.Logger
}

// Entry is one applied command, or a gap.
type Entry struct {
	Index   uint64
	Term    uint64
	Command []byte
	Outcome []byte

	Gap   bool   // nothing is known of the indexes Index to GapTo
	GapTo uint64 // inclusive
	Why   string // what made the gap
}

// Journal is a folder of segments. All methods may be called at any time from any goroutine.
type Journal struct{}

// Open reads the folder, cuts a torn tail off and goes on behind it.
func Open(o Options) (*Journal, error) { panic("journal: to be written") }

// Append records one applied command. It copies what it is given and does not
// wait for the disk. An entry known already is skipped; another command under
// its index is ErrConflict. Entries that the disk does not take become a gap.
func (j *Journal) Append(e Entry) error { panic("journal: to be written") }

// Restored says that the state now is that of a Raft snapshot at index: on start
// and on install. What the journal does not know up to there becomes a gap.
func (j *Journal) Restored(index uint64) error { panic("journal: to be written") }

// Sync returns when everything applied up to index is on disk, or is a marked gap.
// Call it before a Raft snapshot at index is made (S26).
func (j *Journal) Sync(index uint64) error { panic("journal: to be written") }

// Range yields what is known of the indexes [from, to] in order, gaps included,
// until fn returns false. Zero means no bound. The slices belong to fn.
func (j *Journal) Range(from, to uint64, fn func(Entry) bool) error {
	panic("journal: to be written")
}

// First is the lowest index from which history is kept; zero when nothing is.
func (j *Journal) First() uint64 { panic("journal: to be written") }

// Last is the highest index appended; zero when nothing is.
func (j *Journal) Last() uint64 { panic("journal: to be written") }

// Close writes and syncs what is buffered.
func (j *Journal) Close() error { panic("journal: to be written") }
