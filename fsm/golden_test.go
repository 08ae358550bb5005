package fsm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

var update = flag.Bool("update", false, "write testdata/golden.* anew; a change of an old command's meaning shows in the diff of golden.hash")

const (
	goldenLog      = "testdata/golden.log"      // index, length, command; index, length, ...
	goldenSnapshot = "testdata/golden.snapshot" // of the state after it
	goldenHash     = "testdata/golden.hash"     // of that state, in hexadecimal
)

// TestTheGoldenLogMeansWhatItMeant: old commands keep their meaning for ever.
func TestTheGoldenLogMeansWhatItMeant(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	s := New()
	for _, e := range readGolden(t) {
		s.Apply(e.index, e.cmd)
	}
	require.NoError(t, s.Check())
	want, err := os.ReadFile(goldenHash)
	require.NoError(t, err)
	hash := s.Hash()
	require.Equal(t, strings.TrimSpace(string(want)), hex.EncodeToString(hash[:]))

	file, err := os.ReadFile(goldenSnapshot)
	require.NoError(t, err)
	kept, header, err := ReadSnapshot(bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, SnapshotHeader{ClusterID: "cluster-1", Index: s.Cluster().Index, Term: 1, FeatureLevel: 1}, header)
	require.Equal(t, hash, kept.Hash())
	require.Equal(t, (&world{s: s}).contents(), (&world{s: kept}).contents())
	require.Equal(t, file, snapshotOf(t, s), "a state is written in one way only")
}

// TestReplayEqualsSnapshotAndRestAtEveryIndex: a member that joined by a snapshot
// decides as one that applied the whole log.
func TestReplayEqualsSnapshotAndRestAtEveryIndex(t *testing.T) {
	log := readGolden(t)
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
		for j := i + 1; j < len(log); j++ {
			joined.Apply(log[j].index, log[j].cmd)
			require.Equal(t, hashes[j], joined.Hash(), "snapshot at index %d, rest to index %d", log[i].index, log[j].index)
		}
		require.Equal(t, (&world{s: whole}).contents(), (&world{s: joined}).contents(), "snapshot at index %d", log[i].index)
	}
}

func snapshotOf(t testing.TB, s *State) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.WriteSnapshot(&b, 1))
	return b.Bytes()
}

func readGolden(t testing.TB) (log []entry) {
	t.Helper()
	file, err := os.Open(goldenLog)
	require.NoError(t, err)
	defer file.Close()
	in := bufio.NewReader(file)
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

// writeGolden plays with one seed after the other until a log is worth keeping.
func writeGolden(t testing.TB) {
	t.Helper()
	for seed := int64(1); ; seed++ {
		p := newPlayer(t, &seeded{r: rand.New(rand.NewSource(seed)), left: 400})
		var log []entry
		for p.more() {
			e := p.next()
			p.w.s.Apply(e.index, e.cmd)
			log = append(log, e)
		}
		if lacks(log) == "" {
			writeLog(t, log, p.w.s)
			return
		}
	}
}

func writeLog(t testing.TB, log []entry, s *State) {
	t.Helper()
	var b []byte
	for _, e := range log {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(e.cmd)
		require.NoError(t, err)
		b = binary.AppendUvarint(b, e.index)
		b = binary.AppendUvarint(b, uint64(len(raw)))
		b = append(b, raw...)
	}
	hash := s.Hash()
	require.NoError(t, os.WriteFile(goldenLog, b, 0o644))
	require.NoError(t, os.WriteFile(goldenSnapshot, snapshotOf(t, s), 0o644))
	require.NoError(t, os.WriteFile(goldenHash, []byte(hex.EncodeToString(hash[:])+"\n"), 0o644))
}

// TestTheGoldenLogIsWorthKeeping: every command is accepted in it, and refused for every reason.
func TestTheGoldenLogIsWorthKeeping(t *testing.T) { require.Empty(t, lacks(readGolden(t))) }

// lacks says what a log is missing, empty when it has everything.
func lacks(log []entry) string {
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
		if !accepted[string(name)] {
			return string(name) + " is never accepted"
		}
	}
	for _, r := range []Reason{NotFound, Incompatible, Busy, InUse, Precondition, NoCapacity, Forbidden, StaleEpoch, Expired, Unreachable} {
		if !refused[r] {
			return fmt.Sprintf("nothing is refused for reason %d", r)
		}
	}
	if s.volumes.Len() < 6 {
		return "volumes at the end"
	}
	return ""
}
