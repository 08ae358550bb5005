package raftnode

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// ErrRebuildRefused: the data directory is not made, and nothing was changed.
var ErrRebuildRefused = errors.New("nothing was changed")

// Rebuild says what the data directory of a new member is made from: one that begins another life of its cluster
// as the only voter (S1, S24).
type Rebuild struct {
	State *fsm.State
	// Index and Term are those of the Raft snapshot that the state becomes; the state's own index may be lower.
	Index, Term uint64

	Advertise string // the new member's Raft address
	LogStore  string
	Above     uint64 // the new incarnation is above this one as well; hosts may have met it
	Marker    string // the bootstrap marker (S69); as Config.BootstrapMarker
	Actor     string // of the first entry
	Now       time.Time

	// step is called before each step; tests stop there.
	step func(name string) error
}

// Rebuilt is the record of what a data directory was made from, in the file rebuilt.json in it.
type Rebuilt struct {
	Kind        string    `json:"kind"` // restore or recover
	Cluster     string    `json:"cluster"`
	Index       uint64    `json:"index"`      // that it was made at
	StateHash   string    `json:"state_hash"` // of the state that it was made from, in hex
	Incarnation uint64    `json:"incarnation"`
	Member      string    `json:"member"`           // the new member
	Former      string    `json:"former,omitempty"` // the member that was recovered
	At          time.Time `json:"at"`
}

const rebuiltName = "rebuilt.json"

// ReadRebuilt returns the record of a data directory, nil where there is none.
func ReadRebuilt(dir string) (*Rebuilt, error) {
	text, err := os.ReadFile(filepath.Join(dir, rebuiltName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &Rebuilt{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read what the data folder was made from: %w", err)
	}
	return r, nil
}

// NextIncarnation is above the cluster's, above any that one of its hosts has reported, and above the one that is given.
func NextIncarnation(s *fsm.State, above uint64) uint64 {
	highest := max(s.Cluster().Incarnation, above)
	for n := range s.Nodes() {
		highest = max(highest, n.Incarnation)
	}
	return highest + 1
}

// replaceIncarnation is the first entry after the state. The state accepts it.
func (r *Rebuild) replaceIncarnation() (*fsmpb.Command, error) {
	incarnation, request := make([]byte, 16), make([]byte, fsm.RequestIDLen)
	_, _ = rand.Read(incarnation) // it never fails
	_, _ = rand.Read(request)
	cmd := &fsmpb.Command{
		RequestId: request, Actor: r.Actor, ProposedIndex: r.State.Cluster().Index, ProposedAt: r.Now.UnixNano(),
		Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{Counter: NextIncarnation(r.State, r.Above), IncarnationId: incarnation}},
	}
	cmd.SchemaVersion = fsm.LeastLevel(cmd)
	if rej := r.State.Fork().Apply(r.Index+1, cmd).Outcome.GetRejection(); rej != nil {
		return nil, fmt.Errorf("%w: the state refuses another incarnation: %s", ErrRebuildRefused, rej.GetMessage())
	}
	return cmd, nil
}

// at runs the hook of tests before a step.
func (r *Rebuild) at(step string) error {
	if r.step == nil {
		return nil
	}
	return r.step(step)
}

// build makes a whole data directory at dir, which must not be there, and returns what was made. extra
// may put more into it.
func (r *Rebuild) build(dir string, made Rebuilt, extra func() error) (Rebuilt, error) {
	cmd, err := r.replaceIncarnation()
	if err != nil {
		return made, err
	}
	s, err := store.Open(store.Options{Dir: dir, Kind: r.LogStore})
	if err != nil {
		return made, err
	}
	hash := r.State.Hash()
	made.Cluster, made.Index, made.Member, made.At = r.State.Cluster().ID, r.Index, s.MemberID, r.Now.UTC().Truncate(time.Second)
	made.Incarnation, made.StateHash = cmd.GetReplaceIncarnation().GetCounter(), fmt.Sprintf("%x", hash)
	if err := errors.Join(r.fill(s, cmd), s.Close()); err != nil {
		return made, err
	}
	if err := r.at("extra"); err != nil {
		return made, err
	}
	if err := extra(); err != nil {
		return made, err
	}
	if err := r.at("record"); err != nil {
		return made, err
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, rebuiltName), append(text, '\n'), 0o600)
	}
	if err == nil {
		err = syncTree(dir)
	}
	return made, err
}

// fill writes the store's content.
func (r *Rebuild) fill(s *store.Store, cmd *fsmpb.Command) error {
	if err := s.SetClusterID(r.State.Cluster().ID); err != nil {
		return err
	}
	if err := r.at("term"); err != nil {
		return err
	}
	if err := s.Stable.SetUint64([]byte("CurrentTerm"), r.Term+1); err != nil {
		return err
	}
	if err := r.at("snapshot"); err != nil {
		return err
	}
	if err := r.writeSnapshot(s); err != nil {
		return err
	}
	if err := r.at("entry"); err != nil {
		return err
	}
	data, err := marshal(cmd)
	if err != nil {
		return err
	}
	return s.Logs.StoreLog(&raft.Log{Index: r.Index + 1, Term: r.Term + 1, Type: raft.LogCommand, Data: data, AppendedAt: r.Now})
}

// writeSnapshot writes the state as a Raft snapshot whose configuration has the new member alone.
func (r *Rebuild) writeSnapshot(s *store.Store) error {
	alone := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(s.MemberID), Address: raft.ServerAddress(r.Advertise)}}}
	_, addresses := raft.NewInmemTransport("") // encodes addresses as any transport does
	sink, err := s.Snapshots.Create(raft.SnapshotVersionMax, r.Index, r.Term, alone, 1, addresses)
	if err != nil {
		return err
	}
	if err := r.State.WriteDump(sink, r.Term); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// writeMarker remembers that a cluster was founded from dir by this member (S69).
func (r *Rebuild) writeMarker(dir, member string) error {
	text, err := json.Marshal(bootstrapMarker{Member: member, Cluster: r.State.Cluster().ID})
	if err == nil {
		err = durablefile.Write(markerPath(dir, r.Marker), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the marker that a cluster was founded: %w", err)
	}
	return nil
}

func markerPath(dir, marker string) string {
	if marker != "" {
		return marker
	}
	return filepath.Clean(dir) + ".founded"
}

// syncTree makes a directory and all below it durable.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// removeUnfinished removes a directory that an interrupted rebuild left, unless one works in it now.
func removeUnfinished(dir string) error {
	lock, err := lockDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return errors.Join(os.RemoveAll(dir), lock.Close())
}
