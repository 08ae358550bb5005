package fsm

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Of each feature level above the first, testdata keeps what the build that introduced it played: levelN.log.gz has its logs one after the
// other, levelN.digest the sha256 over the state's hash and the reason of the refusal after every entry, and levelN.dumps.gz the dump of
// each log's last state. The files of a level are written again as long as no build of it was released, and never afterwards:
//
//	go test ./fsm -run '^TestGoldenLogsOfTheNewestLevel$' -write-golden
var writeGolden = flag.Bool("write-golden", false, "write the golden logs of the newest feature level")

// goldenFile is a file of a level's golden logs.
func goldenFile(level uint32, suffix string) string {
	return fmt.Sprintf("testdata/level%d.%s", level, suffix)
}

// played plays a world on by chance.
func played(t testing.TB, w *world, created, steps int, seed int64) []entry {
	t.Helper()
	p := newPlayer(t, &seededDice{r: rand.New(rand.NewSource(seed)), left: steps})
	p.w, p.at, p.created = w, w.index, created
	log := slices.Clone(w.log)
	for p.more() {
		e := p.next()
		if p.roll(5) > 1 {
			actor, body := p.realisticStep()
			e.cmd = envelope(actor, fmt.Sprintf("life %d", e.index), e.index-1, body)
		}
		p.w.s.Apply(e.index, e.cmd)
		log = append(log, e)
	}
	return log
}

// newestLogs are logs with every command of the newest level.
func newestLogs(t *testing.T) (logs [][]entry) {
	for seed := range int64(3) {
		logs = append(logs, playedStory(t, 100+seed))
	}
	logs = append(logs, replicatedStory(t).log, played(t, newReplicatedAt(t, MaxFeatureLevel, protocolC), 1, 700, 7),
		played(t, newRelatedGroup(t).world, 3, 700, 8), played(t, newRelated(t).world, 1, 400, 9), forcedStory(t), sweptStory(t), rotatedStory(t))
	return append(logs, storiesOfTheNewestLevel(t)...)
}

// TestGoldenLogsOfTheNewestLevel: the newest level's kept logs have every command of it, accepted (S72). With -write-golden they are
// written.
func TestGoldenLogsOfTheNewestLevel(t *testing.T) {
	if *writeGolden {
		writeGoldenLogs(t, newestLogs(t))
	}
	accepted := map[string]bool{}
	replayGolden(t, MaxFeatureLevel, func(_ *State, e entry, out *fsmpb.Outcome) {
		if row, _ := rowOf(e.index, e.cmd); out.GetRejection() == nil {
			accepted[string(row.command)] = true
		}
	})
	var missing []string
	for name := range commands {
		if commandSince(name) == MaxFeatureLevel && !accepted[string(name)] {
			missing = append(missing, string(name))
		}
	}
	require.Empty(t, missing, "accepted in no golden log of level %d: add them to storiesOfTheNewestLevel, "+
		"then go test ./fsm -run '^TestGoldenLogsOfTheNewestLevel$' -write-golden", MaxFeatureLevel)
}

// S72: at each level this build decides and records what the build that introduced the level did, after every entry, and reads and
// writes its dumps to the byte.
func TestS72_EveryLevelDecidesAsItDid(t *testing.T) {
	for level := Level2; level <= MaxFeatureLevel; level++ {
		t.Run(fmt.Sprint("level ", level), func(t *testing.T) { checkGoldenLevel(t, level) })
	}
}

func checkGoldenLevel(t *testing.T, level uint32) {
	digest := sha256.New()
	ends := replayGolden(t, level, func(s *State, _ entry, out *fsmpb.Outcome) { digest.Write(verdictOf(s, out)) })
	want, err := os.ReadFile(goldenFile(level, "digest"))
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(want)), hex.EncodeToString(digest.Sum(nil)))
	dumps := unpacked(t, goldenFile(level, "dumps.gz"))
	for _, s := range ends {
		require.NoError(t, s.Check())
		require.LessOrEqual(t, s.Cluster().FeatureLevel, level)
		size, err := binary.ReadUvarint(dumps)
		require.NoError(t, err)
		dump := make([]byte, size)
		_, err = io.ReadFull(dumps, dump)
		require.NoError(t, err)
		kept, header, err := ReadDump(bytes.NewReader(dump))
		require.NoError(t, err)
		require.Equal(t, s.Cluster().FeatureLevel, header.FeatureLevel)
		require.Equal(t, s.Hash(), kept.Hash())
		require.True(t, bytes.Equal(dump, dumpOf(t, kept)), "a state is written in one way only")
	}
	_, err = dumps.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

// verdictOf is what the digest is over: what an entry left, and whether and why it was refused.
func verdictOf(s *State, out *fsmpb.Outcome) []byte {
	hash := s.Hash()
	return fmt.Appendf(hash[:], "%d\n", out.GetRejection().GetReason())
}

// replayGolden replays the logs of a level and returns the state at the end of each.
func replayGolden(t testing.TB, level uint32, each func(*State, entry, *fsmpb.Outcome)) (ends []*State) {
	t.Helper()
	s := New()
	for _, e := range readLog(t, unpacked(t, goldenFile(level, "log.gz"))) {
		if e.index <= s.Cluster().Index {
			ends, s = append(ends, s), New() // another log begins
		}
		each(s, e, s.Apply(e.index, e.cmd).Outcome)
	}
	return append(ends, s)
}

func unpacked(t testing.TB, path string) *bufio.Reader {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	return bufio.NewReader(z)
}

func writeGoldenLogs(t testing.TB, logs [][]entry) {
	t.Helper()
	var log, dumps []byte
	digest := sha256.New()
	for _, entries := range logs {
		s := New()
		for _, e := range entries {
			cmd, err := proto.MarshalOptions{Deterministic: true}.Marshal(e.cmd)
			require.NoError(t, err)
			log = binary.AppendUvarint(binary.AppendUvarint(log, e.index), uint64(len(cmd)))
			log = append(log, cmd...)
			digest.Write(verdictOf(s, s.Apply(e.index, e.cmd).Outcome))
		}
		dump := dumpOf(t, s)
		dumps = append(binary.AppendUvarint(dumps, uint64(len(dump))), dump...)
	}
	writePacked(t, "log.gz", log)
	writePacked(t, "dumps.gz", dumps)
	require.NoError(t, os.WriteFile(goldenFile(MaxFeatureLevel, "digest"), []byte(hex.EncodeToString(digest.Sum(nil))+"\n"), 0o644))
}

func writePacked(t testing.TB, suffix string, content []byte) {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	require.NoError(t, err)
	_, err = z.Write(content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(goldenFile(MaxFeatureLevel, suffix), packed.Bytes(), 0o644))
}
