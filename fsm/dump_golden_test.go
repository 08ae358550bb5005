package fsm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A golden log is base.log (index, length, command; index, length, ...), base.snapshot of
// the state after it, and base.hash of that state, in hexadecimal. Those of level 1 are
// never written again.
const (
	goldenLog           = "testdata/golden"
	goldenReplicatedLog = "testdata/replicated"
)

// TestTheGoldenLogReplaysToItsHashes: old commands keep their meaning for ever.
func TestTheGoldenLogReplaysToItsHashes(t *testing.T) {
	for _, base := range []string{goldenLog, goldenReplicatedLog} {
		t.Run(base, func(t *testing.T) { checkGoldenHashes(t, base) })
	}
}

func checkGoldenHashes(t *testing.T, base string) {
	s := New()
	for _, e := range readGolden(t, base) {
		s.Apply(e.index, e.cmd)
	}
	require.NoError(t, s.Check())
	want, err := os.ReadFile(base + ".hash")
	require.NoError(t, err)
	hash := s.Hash()
	require.Equal(t, strings.TrimSpace(string(want)), hex.EncodeToString(hash[:]))

	file, err := os.ReadFile(base + ".snapshot")
	require.NoError(t, err)
	kept, header, err := ReadDump(bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, DumpHeader{ClusterID: "cluster-1", Index: s.Cluster().Index, Term: 1, FeatureLevel: 1}, header)
	require.Equal(t, hash, kept.Hash())
	require.Equal(t, (&world{s: s}).contents(), (&world{s: kept}).contents())
	require.Equal(t, file, dumpOf(t, s), "a state is written in one way only")
}

// TestADumpAtAnyIndexIsTheState: a member that joined by a snapshot has the state, and decides as one that applied
// the whole log.
func TestADumpAtAnyIndexIsTheState(t *testing.T) {
	skipUnderRace(t)
	for _, base := range []string{goldenLog, goldenReplicatedLog} {
		t.Run(base, func(t *testing.T) { checkReplay(t, readGolden(t, base)) })
	}
	t.Run("the newest level", func(t *testing.T) { checkReplay(t, playedStory(t, 1)) })
	t.Run("the newest level, replicated", func(t *testing.T) { checkReplay(t, replicatedStory(t).log) })
}

func checkReplay(t *testing.T, log []entry) {
	whole := New()
	hashes := make([][32]byte, len(log))
	var at []*State
	for i, e := range log {
		whole.Apply(e.index, e.cmd)
		hashes[i] = whole.Hash()
		at = append(at, whole.Fork())
	}
	for i := range log {
		joined := restored(t, at[i])
		require.Equal(t, (&world{s: at[i]}).contents(), (&world{s: joined}).contents(), "index %d", log[i].index)
		if i%3 != 0 { // the rest of the log is applied n times for n indices: from each third it shows the same
			continue
		}
		for j := i + 1; j < len(log); j++ {
			joined.Apply(log[j].index, log[j].cmd)
			require.Equal(t, hashes[j], joined.Hash(), "snapshot at index %d, rest to index %d", log[i].index, log[j].index)
		}
		require.Equal(t, (&world{s: whole}).contents(), (&world{s: joined}).contents(), "snapshot at index %d", log[i].index)
	}
}

func dumpOf(t testing.TB, s *State) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.WriteDump(&b, 1))
	return b.Bytes()
}

func readGolden(t testing.TB, base string) (log []entry) {
	t.Helper()
	file, err := os.Open(base + ".log")
	require.NoError(t, err)
	defer file.Close()
	return readLog(t, bufio.NewReader(file))
}

func readLog(t testing.TB, in *bufio.Reader) (log []entry) {
	t.Helper()
	for {
		index, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return log
		}
		require.NoError(t, err)
		size, err := binary.ReadUvarint(in)
		require.NoError(t, err)
		b := make([]byte, size)
		_, err = io.ReadFull(in, b)
		require.NoError(t, err)
		cmd := &fsmpb.Command{}
		require.NoError(t, proto.Unmarshal(b, cmd))
		log = append(log, entry{index, cmd})
	}
}

// TestTheGoldenLogCoversEveryCommandAndReason: every command is accepted in it, and refused for every reason.
func TestTheGoldenLogCoversEveryCommandAndReason(t *testing.T) {
	require.Empty(t, missingFromLog(readGolden(t, goldenLog)))
}

// TestTheReplicatedGoldenLogCoversEveryReplicaCommand: every command of replicas is accepted in it.
func TestTheReplicatedGoldenLogCoversEveryReplicaCommand(t *testing.T) {
	accepted := map[string]bool{}
	s := New()
	for _, e := range readGolden(t, goldenReplicatedLog) {
		row, _ := rowOf(e.index, e.cmd)
		if reasonOf(s.Apply(e.index, e.cmd).Outcome) == 0 {
			accepted[string(row.command)] = true
		}
	}
	for name := range replicationCommands {
		require.Contains(t, accepted, string(name))
	}
	v, _ := s.Volume(VolumeID(volumeID(2)))
	require.NotNil(t, v.Replication.Primary)
	require.NotZero(t, s.answers.Len())
}

// replicationCommands are the commands that have a golden log of their own.
var replicationCommands = map[protoreflect.FullName]bool{
	"holdfast.fsm.v1.AttachReplica": true, "holdfast.fsm.v1.SetPrimary": true, "holdfast.fsm.v1.Outdate": true,
	"holdfast.fsm.v1.ForcePrimary": true, "holdfast.fsm.v1.AddReplica": true, "holdfast.fsm.v1.RemoveReplica": true,
	"holdfast.fsm.v1.ScheduleNode": true,
}

// missingFromLog says what a log is missing, empty when it has everything.
func missingFromLog(log []entry) string {
	accepted, refused := map[string]bool{}, map[Reason]bool{}
	s := New()
	for _, e := range log {
		row, _ := rowOf(e.index, e.cmd)
		r := reasonOf(s.Apply(e.index, e.cmd).Outcome)
		refused[r] = true
		if r == 0 {
			accepted[string(row.command)] = true
		}
	}
	for name := range commands {
		if !accepted[string(name)] && !replicationCommands[name] && commandSince(name) <= s.Cluster().FeatureLevel {
			return string(name) + " is never accepted"
		}
	}
	for _, r := range []Reason{NotFound, Incompatible, Busy, InUse, Precondition, OutOfRange, NoCapacity, Forbidden, StaleEpoch, Expired, Unreachable} {
		if !refused[r] {
			return fmt.Sprintf("nothing is refused for reason %d", r)
		}
	}
	if s.volumes.Len() < 6 || s.answers.Len() < 100 {
		return "volumes and answers at the end"
	}
	return missingSnapshotSteps(s)
}

// missingSnapshotSteps says what is missing of snapshots at the end.
func missingSnapshotSteps(s *State) string {
	phases, groups := map[SnapshotPhase]bool{}, map[GroupPhase]bool{}
	for n := range s.Snapshots("") {
		phases[n.Phase] = true
	}
	for g := range s.GroupSnapshots("") {
		groups[g.Phase] = true
	}
	if len(phases) < 3 || len(groups) < 2 {
		return "snapshots and groups in several phases"
	}
	for v := range s.Volumes("") {
		if !v.Source.IsZero() {
			return ""
		}
	}
	return "a volume made from a source"
}
