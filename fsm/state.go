package fsm

import (
	"fmt"

	"github.com/tidwall/btree"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// State is the fold of the log. It is owned by one goroutine at a time: Apply
// and Fork change it; the reading methods may run side by side under a read lock.
type State struct {
	cluster   Cluster
	nodes     *btree.Map[NodeID, *storedNode]
	volumes   *btree.BTreeG[volumeItem]
	answers   *btree.Map[uint64, *answer] // by the index they were given at (S4)
	snapshots snapshotTables              // snapshots, and groups of them
	// volumeGroups are the groups of volumes.
	volumeGroups volumeGroupTables
	fences       *btree.BTreeG[*storedFence]
	revocations  *btree.BTreeG[*storedRevocation]
	joinTokens   *btree.BTreeG[*storedJoinToken]
	// sum is the multiset hash of all records but the cluster's own.
	sum sum256
	// index is derived from the records and rebuilt when a dump is read.
	index   index
	lookups *lookups

	intern         interner // saves memory only
	writes         uint64   // counts puts and removals: a rejection that wrote is a fault
	changes        []Change // of the Apply that is running
	scratch        encoder  // of the record that is being hashed
	recentFailures recentFailures
	sweepBudget    sweepBudget // of a sweep's batch; zero: the default
}

// Result is what Apply decided.
type Result struct {
	// Outcome is the answer to the command's proposer. It is shared with
	// the state's memory of answers: read it, never write to it.
	Outcome *fsmpb.Outcome
	// Changes is what watchers should read again.
	Changes []Change
}

// Err is the outcome's rejection as an error, nil when there is none.
func Err(o *fsmpb.Outcome) error {
	if r := o.GetRejection(); r != nil {
		return &Rejection{Reason: Reason(r.GetReason()), Message: r.GetMessage()}
	}
	return nil
}

// New is the state before the first entry.
func New() *State {
	return &State{
		nodes:     new(btree.Map[NodeID, *storedNode]),
		volumes:   ordered(volumeItem.before),
		answers:   new(btree.Map[uint64, *answer]),
		snapshots: newSnapshotTables(),

		volumeGroups: newVolumeGroupTables(),
		fences:       ordered((*storedFence).before),
		revocations:  ordered((*storedRevocation).before),
		joinTokens:   ordered((*storedJoinToken).before),
		index:        newIndex(),
		lookups:      newLookups(0, 0),
	}
}

// Apply folds one committed command into the state. It panics on a fault: an
// unknown command, field or fact, or an index that does not grow.
func (s *State) Apply(index uint64, cmd *fsmpb.Command) Result {
	row, body := rowOf(index, cmd)
	if plantedbug.Is(plantedbug.FaultInApply) && cmd.GetCreateVolume().GetName() == "planted-fault" {
		panic("the planted fault")
	}
	level, incarnation := s.cluster.FeatureLevel, s.cluster.Incarnation
	m := s.begin(index, cmd)
	outcome := s.answerOnce(m, row, cmd, body)
	mayBegin := level < Level3 || incarnation != s.cluster.Incarnation
	s.extendChain(mayBegin, index, func(e *encoder) { e.message(cmd.ProtoReflect()) }, outcome)
	changes := s.changes
	s.changes = nil
	if checkAlways {
		if err := s.Check(); err != nil {
			panic(fmt.Sprintf("log index %d: %s: %v", index, row.command, err))
		}
	}
	return Result{Outcome: outcome, Changes: changes}
}

// begin moves index and clock. The clock is clamped to be monotonic: a leader
// whose clock is behind its predecessor's repeats the last time.
func (s *State) begin(index uint64, cmd *fsmpb.Command) Meta {
	if index <= s.cluster.Index {
		panic(fmt.Sprintf("apply log index %d: the state is at index %d already", index, s.cluster.Index))
	}
	s.cluster.Index = index
	if now := TimeOf(cmd.GetProposedAt()); now.After(s.cluster.Time) {
		s.cluster.Time = now
	}
	s.ensureLookups()
	s.forgetOldAnswers(index)
	return Meta{
		Index:    index,
		Now:      s.cluster.Time,
		Epoch:    Epoch{Incarnation: s.cluster.Incarnation, Index: index},
		Level:    max(Level1, cmd.GetSchemaVersion()),
		Proposed: cmd.GetProposedIndex(),
		endpoint: s.endpointOf(cmd),
		Actor:    cmd.GetActor(),
	}
}

// epoch is the epoch of the entry that is being applied.
func (s *State) epoch() Epoch {
	return Epoch{Incarnation: s.cluster.Incarnation, Index: s.cluster.Index}
}

// Fork is an independent copy in O(1), for dumps, hashes and dry runs. The first
// Apply on it costs O(state), and until then VolumeByName does.
func (s *State) Fork() *State {
	return &State{
		cluster:   s.cluster,
		nodes:     s.nodes.Copy(),
		volumes:   s.volumes.Copy(),
		answers:   s.answers.Copy(),
		snapshots: s.snapshots.copy(),

		volumeGroups: s.volumeGroups.copy(),
		fences:       s.fences.Copy(),
		revocations:  s.revocations.Copy(),
		joinTokens:   s.joinTokens.Copy(),
		sum:          s.sum,
		index:        s.index.copy(),
		intern:       s.intern,
		sweepBudget:  s.sweepBudget,
	}
}

// Hash is the hash of the whole content at Cluster().Index. It is kept up to date
// by every write, so it costs one small record to read.
func (s *State) Hash() [32]byte {
	var e encoder
	clusterSum := hashCluster(&e, &s.cluster)
	return s.sum.plus(clusterSum).bytes()
}

// Cluster is what the state knows of itself.
func (s *State) Cluster() Cluster { return s.cluster }
