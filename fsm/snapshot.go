package fsm

import "io"

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
