package fsm

import (
	"io"
	"iter"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DedupeWindow is how many entries back a command may first have been proposed (S4).
const DedupeWindow = 65_536

// DefaultVolumeSize is for requests without a capacity range.
const DefaultVolumeSize = 1 << 30

// MinXFSSize is the smallest xfs volume.
const MinXFSSize = 320 << 20

// State is the fold of the log. It is owned by one goroutine at a time: Apply
// and Fork change it; the reading methods may run side by side under a read lock.
type State struct{}

// Cluster is what the state knows of itself.
type Cluster struct {
	ID            string
	Incarnation   uint64
	IncarnationID []byte
	FeatureLevel  uint32
	Index         uint64 // of the last applied command
	Time          time.Time
	Checkpoint    Checkpoint
}

// Checkpoint is the last hash that a majority agreed on (S23).
type Checkpoint struct {
	Index uint64
	Hash  []byte
}

// Result is what Apply decided.
type Result struct {
	// Outcome is to be told to whoever proposed the command.
	Outcome *fsmpb.Outcome
	// Touched is what watchers should look at again.
	Touched []Touch
}

// Err is the outcome's rejection as an error, nil when there is none.
func Err(o *fsmpb.Outcome) error { panic("fsm: to be written") }

// New is the state before the first entry.
func New() *State { panic("fsm: to be written") }

// Apply folds one committed command into the state. It panics on a fault: an
// unknown command, or an index that does not grow.
func (s *State) Apply(index uint64, cmd *fsmpb.Command) Result { panic("fsm: to be written") }

// Fork is an independent copy in O(1), for snapshots, hashes and what-if.
func (s *State) Fork() *State { panic("fsm: to be written") }

// Hash is the hash of the whole content at Cluster().Index. It is kept up to date
// by every write, so it costs nothing to read.
func (s *State) Hash() [32]byte { panic("fsm: to be written") }

// Check says which invariant of doc.go is broken, nil when all hold. O(state).
func (s *State) Check() error { panic("fsm: to be written") }

// Cluster is what the state knows of itself.
func (s *State) Cluster() Cluster { panic("fsm: to be written") }

// Volume is a volume in any phase.
func (s *State) Volume(id VolumeID) (*Volume, bool) { panic("fsm: to be written") }

// VolumeByName is the live volume (not Deleting) of that name.
func (s *State) VolumeByName(name string) (*Volume, bool) { panic("fsm: to be written") }

// Volumes yields all volumes with an id above after, in order, in all phases.
func (s *State) Volumes(after VolumeID) iter.Seq[*Volume] { panic("fsm: to be written") }

// Node is one host's record.
func (s *State) Node(id NodeID) (*Node, bool) { panic("fsm: to be written") }

// Nodes yields all hosts in order of name.
func (s *State) Nodes() iter.Seq[*Node] { panic("fsm: to be written") }

// Operations yields the volumes that have an operation, in order of volume id.
func (s *State) Operations() iter.Seq[*Volume] { panic("fsm: to be written") }

// Operation finds the volume that has this operation.
func (s *State) Operation(id OperationID) (*Volume, bool) { panic("fsm: to be written") }

// Wish is what the log wants of a host for a volume; false when it wants nothing.
func (s *State) Wish(node NodeID, volume VolumeID) (Wish, bool) { panic("fsm: to be written") }

// Wishes yields all wishes for a host in order of volume id.
func (s *State) Wishes(node NodeID) iter.Seq[Wish] { panic("fsm: to be written") }

// PoolUse is how much of a pool is reserved, in bytes, and by how many volumes.
func (s *State) PoolUse(id PoolID) (reserved int64, volumes int) { panic("fsm: to be written") }

// Available is how many bytes a new volume of one of the terms' topologies could
// reserve at most in one pool, and in all pools together: GetCapacity's answer.
func (s *State) Available(terms []Topology) (largest, total int64) { panic("fsm: to be written") }

// Topology is a host's segments: the topology key, the zone and the operators' labels.
func (n *Node) Topology() Topology { panic("fsm: to be written") }

// SnapshotHeader is how a Raft snapshot begins.
type SnapshotHeader struct {
	ClusterID    string
	Index        uint64 // of the state, not of Raft (S24)
	Term         uint64
	FeatureLevel uint32
}

// WriteSnapshot writes header, sorted length-delimited records and a sha256 trailer.
func (s *State) WriteSnapshot(w io.Writer, term uint64) error { panic("fsm: to be written") }

// ReadSnapshot decodes and verifies a whole snapshot before it returns a state.
// The error says what is wrong with it.
func ReadSnapshot(r io.Reader) (*State, SnapshotHeader, error) { panic("fsm: to be written") }
