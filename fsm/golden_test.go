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
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

var update = flag.Bool("update", false, "write testdata/golden.* anew; a change of an old command's meaning shows in the diff of golden.hash")

const (
	golden           = "testdata/golden"     // .log: index, length, command; index, length, ...
	goldenReplicated = "testdata/replicated" // .snapshot of the state after it, .hash of that state, in hexadecimal
)

// TestTheGoldenLogMeansWhatItMeant: old commands keep their meaning for ever.
func TestTheGoldenLogMeansWhatItMeant(t *testing.T) {
	if *update {
		writeGolden(t)
		w := replicatedStory(t)
		writeLog(t, goldenReplicated, w.log, w.s)
	}
	for _, base := range []string{golden, goldenReplicated} {
		t.Run(base, func(t *testing.T) { meansWhatItMeant(t, base) })
	}
}

func meansWhatItMeant(t *testing.T, base string) {
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
	for _, base := range []string{golden, goldenReplicated} {
		t.Run(base, func(t *testing.T) { replays(t, readGolden(t, base)) })
	}
}

func replays(t *testing.T, log []entry) {
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

// writeGolden plays with one seed after the other until a log is worth keeping.
func writeGolden(t testing.TB) {
	t.Helper()
	missing := map[string]int{}
	for seed := int64(1); seed < 2000; seed++ {
		p := newPlayer(t, &seeded{r: rand.New(rand.NewSource(seed)), left: 400})
		p.w = story(t)
		p.at = p.w.index
		log := slices.Clone(p.w.log)
		for p.more() {
			e := p.next()
			p.w.s.Apply(e.index, e.cmd)
			log = append(log, e)
		}
		lacking := lacks(log)
		if lacking == "" {
			writeLog(t, golden, log, p.w.s)
			return
		}
		missing[lacking]++
	}
	t.Fatalf("no seed makes a log worth keeping: %v", missing)
}

func writeLog(t testing.TB, base string, log []entry, s *State) {
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
	require.NoError(t, os.WriteFile(base+".log", b, 0o644))
	require.NoError(t, os.WriteFile(base+".snapshot", snapshotOf(t, s), 0o644))
	require.NoError(t, os.WriteFile(base+".hash", []byte(hex.EncodeToString(hash[:])+"\n"), 0o644))
}

// TestTheGoldenLogIsWorthKeeping: every command is accepted in it, and refused for every reason.
func TestTheGoldenLogIsWorthKeeping(t *testing.T) { require.Empty(t, lacks(readGolden(t, golden))) }

// TestTheReplicatedLogIsWorthKeeping: every command of replicas is accepted in it.
func TestTheReplicatedLogIsWorthKeeping(t *testing.T) {
	accepted := map[string]bool{}
	s := New()
	for _, e := range readGolden(t, goldenReplicated) {
		row, _ := rowOf(e.index, e.cmd)
		if reasonOf(s.Apply(e.index, e.cmd).Outcome) == 0 {
			accepted[string(row.command)] = true
		}
	}
	for name := range ofReplication {
		require.Contains(t, accepted, string(name))
	}
	v, _ := s.Volume(VolumeID(volumeID(2)))
	require.NotNil(t, v.Replication.Primary)
	require.NotZero(t, s.answers.Len())
}

// replicatedStory is the log of replicated volumes: a takeover, a loser that comes back,
// a replica that is replaced, a decision to force, and volumes in every phase at the end.
func replicatedStory(t testing.TB) *world {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.primary(1, "n1", 7)
	ask1(w)
	w.sees(1, "n1", together(8))
	w.unstaged(1, "n1", w.volume(1).Publication("n1").Epoch)
	w.ok("node/n1", w.setPrimary(1, "n1", together(8)))
	primary := together(8)
	primary.Primary = true
	w.sees(1, "n1", primary)
	w.sees(1, "n2", together(8))
	w.sees(1, "n1", primary)
	revoked1(w)
	takeover1(w)
	won := apart(9, alone)
	won.Primary = true
	w.sees(1, "n2", won)
	w.away("n1", false)
	w.sees(1, "n1", ReplicaSeen{Down: true})
	w.ok(controller, remove("n1"))
	w.ok(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
	w.ok(admin, schedule("n3", true))
	w.bornVolume(2, createReplicated(2, protocolA))
	w.primary(2, "n2", 7)
	w.ok(controller, createReplicated(3, protocolC))
	w.bornVolume(4, createReplicated(4, protocolC))
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(4)})
	w.bornVolume(5, createReplicated(5, protocolC))
	w.reboot("n1")
	w.attach(5, "n1", 2)
	w.away("n2", true)
	c := force("n1", true)
	c.VolumeId = volumeID(5)
	w.ok(admin, c)
	return w
}

// ofReplication are the commands that have a golden log of their own.
var ofReplication = map[protoreflect.FullName]bool{
	"holdfast.fsm.v1.AttachReplica": true, "holdfast.fsm.v1.SetPrimary": true, "holdfast.fsm.v1.Outdate": true,
	"holdfast.fsm.v1.ForcePrimary": true, "holdfast.fsm.v1.AddReplica": true, "holdfast.fsm.v1.RemoveReplica": true,
	"holdfast.fsm.v1.ScheduleNode": true,
}

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
		if !accepted[string(name)] && !ofReplication[name] {
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
	return lacksCuts(s)
}

// lacksCuts says what is missing of snapshots at the end.
func lacksCuts(s *State) string {
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

// story is how a golden log begins: what chance seldom brings about.
func story(t testing.TB) *world {
	w := newWorld(t)
	w.formatted()
	w.cut(1, 1)
	w.ready(2, of(2, ofSnapshot(1)))
	w.ready(3, of(3, ofVolume(1)))
	w.grouped(1, 1, 2)
	w.ok(controller, groupOf(2, 2, 3))
	w.report("n1", frozen(200, 1), seen(201, &fsmpb.Thawed{Attempt: 1}))
	w.staged(2, "n1", 1)
	w.ok("node/n1", &fsmpb.PublishTarget{
		VolumeId: volumeID(2), NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Epoch: w.volume(2).Publications()[0].Epoch.proto(),
		TargetPath: "/target", Capability: mount(writer), Sequence: 2,
	})
	w.ok(controller, modify(2, 0, &fsmpb.Limits{ReadIops: 7}))
	w.report("n1", limited(2, &fsmpb.Limits{ReadIops: 7}))
	w.ok(controller, expand(2, 2*gib, 0))
	w.ok("node/n9", register("n9"))
	w.ok("admin/ann", &fsmpb.LoseNode{NodeId: "n9", HostId: "host-n9", Reason: "burnt"})
	w.ok("admin/ann", &fsmpb.SetFeatureLevel{Level: 1})
	w.no(OutOfRange, controller, expand(1, gib/2, gib/2))
	w.ok("admin/ann", &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
	w.ok("admin/ann", &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
	return w
}
