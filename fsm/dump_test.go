package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// restored is the state written and read again.
func restored(t testing.TB, s *State) *State {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.WriteDump(&b, 7))
	again, header, err := ReadDump(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	require.Equal(t, DumpHeader{ClusterID: s.Cluster().ID, Index: s.Cluster().Index, Term: 7, FeatureLevel: s.Cluster().FeatureLevel}, header)
	require.Equal(t, s.Hash(), again.Hash())
	require.NoError(t, again.Check())
	return again
}

func TestADumpHoldsEverything(t *testing.T) {
	w := newRevokedWhileUnreachable(t)
	w.ready(2, changed(2, func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n2"), onNode("n1")} }))
	w.ok(controller, publish(2, "n1"))
	w.ok(controller, create(3))
	w.apply(controller, publish(9, "n1"))
	again := restored(t, w.s)
	require.Equal(t, w.contents(), (&world{s: again}).contents())
	require.Equal(t, w.s.Cluster(), again.Cluster())
	for _, e := range w.log {
		key := answerKey{[16]byte(e.cmd.RequestId), e.cmd.Actor}
		old, kept := w.s.lookups.answers[key], again.lookups.answers[key]
		require.Equal(t, old.index, kept.index)
		require.True(t, proto.Equal(old.outcome, kept.outcome))
	}
}

func TestAnEmptyStateIsWrittenAndRead(t *testing.T) { restored(t, New()) }

func TestAForkIsWrittenWhileApplyGoesOn(t *testing.T) {
	w := newWorld(t)
	for n := range 200 {
		w.s.Apply(w.next(), envelope(controller, fmt.Sprint(n), w.index, create(n)))
	}
	fork, hash := w.s.Fork(), w.s.Hash()
	done := make(chan *State)
	go func() { done <- restored(t, fork) }()
	for n := range 200 {
		w.s.Apply(w.next(), envelope(controller, fmt.Sprint("d", n), w.index, &fsmpb.DeleteVolume{VolumeId: volumeID(n)}))
	}
	require.Equal(t, hash, (<-done).Hash())
	require.NotEqual(t, hash, w.s.Hash())
}

// In any life a Raft snapshot is written, and a fork is applied to, while Apply goes on.
func TestForksOfRandomHistoriesAreUsedWhileApplyGoesOn(t *testing.T) {
	p := newPlayer(t, &seededDice{r: rand.New(rand.NewSource(500)), left: 300})
	p.w = newReplicated(t, protocolC)
	p.at, p.created = p.w.index, 1
	var users sync.WaitGroup
	for p.more() {
		e := p.next()
		if p.roll(5) > 0 {
			actor, body := p.realisticStep()
			e.cmd = envelope(actor, fmt.Sprintf("life %d", e.index), e.index-1, body)
		}
		written, applied, hash := p.w.s.Fork(), p.w.s.Fork(), p.w.s.Hash()
		users.Go(func() { assert.NoError(t, written.WriteDump(io.Discard, 1)); assert.Equal(t, hash, written.Hash()) })
		cmd := proto.CloneOf(e.cmd)
		users.Go(func() { applied.Apply(e.index, cmd) })
		p.w.s.Apply(e.index, e.cmd)
	}
	users.Wait()
	require.NoError(t, p.w.s.Check())
}

func (w *world) next() uint64 { w.index++; return w.index }

// S24 and S135: what is damaged is refused, whole or not at all, and says what is wrong.
func TestADamagedDumpIsRefused(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
	whole := dumpOf(t, w.s)
	refused := func(b []byte) string {
		s, _, err := ReadDump(bytes.NewReader(b))
		require.Error(t, err)
		require.Nil(t, s)
		return err.Error()
	}
	for n := range whole {
		refused(whole[:n])
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1 << (n % 8)
		refused(flipped)
	}
	require.Contains(t, refused(whole[:len(whole)-40]), "truncated")
	require.Contains(t, refused(append(bytes.Clone(whole), 0)), "follows")
	require.Contains(t, refused([]byte("PK\x03\x04 not ours at all")), "does not begin")
	require.Contains(t, refused(nil), "truncated")
}

func TestADumpOfAnotherFormatIsRefused(t *testing.T) {
	for says, header := range map[string]*fsmpb.Header{
		"format is 2":        {Format: 2},
		"feature level is 9": {Format: 1, FeatureLevel: 9},
		"another cluster":    {Format: 1, ClusterId: "another"},
		"records hash to":    {Format: 1, StateHash: make([]byte, 32)},
	} {
		_, _, err := ReadDump(bytes.NewReader(withChecksum(dumpFile(t, header))))
		require.ErrorContains(t, err, says)
	}
	later := &fsmpb.Record{}
	later.ProtoReflect().SetUnknown([]byte{0xfa, 0x07, 0})
	_, _, err := ReadDump(bytes.NewReader(withChecksum(dumpFile(t, &fsmpb.Header{Format: 1, Records: 1}, later))))
	require.ErrorContains(t, err, "does not know")
}

// dumpFile is a snapshot without its checksum.
func dumpFile(t testing.TB, messages ...proto.Message) []byte {
	b := []byte(dumpMagic)
	for _, m := range messages {
		raw, err := proto.Marshal(m)
		require.NoError(t, err)
		b = append(binary.AppendUvarint(b, uint64(len(raw))), raw...)
	}
	return b
}

func withChecksum(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func TestRecordsThatNoStateWroteAreRefused(t *testing.T) {
	text := func(s string) *fsmpb.Record {
		return &fsmpb.Record{Kind: &fsmpb.Record_Text{Text: &fsmpb.Text{Value: []byte(s)}}}
	}
	volume := func(change func(*fsmpb.VolumeRecord)) *fsmpb.Record {
		v := &fsmpb.VolumeRecord{VolumeId: make([]byte, 16), Name: "a", Phase: phaseReady, CreatedIndex: 1}
		change(v)
		return &fsmpb.Record{Kind: &fsmpb.Record_Volume{Volume: v}}
	}
	answer := func(index uint64) *fsmpb.Record {
		return &fsmpb.Record{Kind: &fsmpb.Record_Answer{Answer: &fsmpb.AnswerRecord{RequestId: bytesOf(fmt.Sprint(index%7), 16), Index: index}}}
	}
	plain := volume(func(*fsmpb.VolumeRecord) {})
	second := func(change func(*fsmpb.VolumeRecord)) *fsmpb.Record {
		return volume(func(v *fsmpb.VolumeRecord) {
			v.VolumeId, v.Name, v.CreatedIndex = bytes.Repeat([]byte{1}, 16), "b", 2
			change(v)
		})
	}
	for name, records := range map[string][]*fsmpb.Record{
		"texts out of order":            {text("b"), text("a")},
		"an empty text":                 {text("")},
		"kinds out of order":            {answer(1), text("a")},
		"answers out of order":          {answer(2), answer(1)},
		"a request id twice":            {answer(1), answer(8)},
		"nothing after a volume":        {plain, {}},
		"nothing after an answer":       {answer(1), {}},
		"two clusters":                  {{Kind: &fsmpb.Record_Cluster{Cluster: &fsmpb.ClusterRecord{}}}, {Kind: &fsmpb.Record_Cluster{Cluster: &fsmpb.ClusterRecord{}}}},
		"a node in no state":            {{Kind: &fsmpb.Record_Node{Node: &fsmpb.NodeRecord{NodeId: "a"}}}},
		"an odd term":                   {{Kind: &fsmpb.Record_Requisite{Requisite: &fsmpb.RequisiteRecord{Terms: []*fsmpb.TermRecord{{Labels: []uint32{0}}}}}}},
		"a term that refers to no text": {{Kind: &fsmpb.Record_Requisite{Requisite: &fsmpb.RequisiteRecord{Terms: []*fsmpb.TermRecord{{Labels: []uint32{0, 1}}}}}}},
		"a volume twice":                {plain, plain},
		"a name twice":                  {plain, second(func(v *fsmpb.VolumeRecord) { v.Name = "a" })},
		"a creation twice":              {plain, second(func(v *fsmpb.VolumeRecord) { v.CreatedIndex = 1 })},
		"a volume without a phase":      {volume(func(v *fsmpb.VolumeRecord) { v.Phase = 0 })},
		"a volume without an id":        {volume(func(v *fsmpb.VolumeRecord) { v.VolumeId = nil })},
		"a ref to no text":              {volume(func(v *fsmpb.VolumeRecord) { v.FingerprintRef = 1 })},
		"a ref to no requisite":         {volume(func(v *fsmpb.VolumeRecord) { v.RequisiteRef = 1 << 31 })},
		"a replica in no state":         {volume(func(v *fsmpb.VolumeRecord) { v.Replicas = []*fsmpb.ReplicaRecord{{State: 9}} })},
		"an operation of no kind":       {volume(func(v *fsmpb.VolumeRecord) { v.Operation = &fsmpb.OperationRecord{State: 1} })},
		"a uuid of 3 bytes":             {volume(func(v *fsmpb.VolumeRecord) { v.Format = &fsmpb.FormatRecord{FsUuid: []byte("abc")} })},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, readRecords(t, records...), fmt.Sprintf("record %d of %d", len(records), len(records)))
		})
	}
}

// readRecords reads a dump of the records, whose header has no right hash.
func readRecords(t *testing.T, records ...*fsmpb.Record) error {
	messages := []proto.Message{&fsmpb.Header{Format: 1, Records: uint64(len(records))}}
	for _, r := range records {
		messages = append(messages, r)
	}
	_, _, err := ReadDump(bytes.NewReader(withChecksum(dumpFile(t, messages...))))
	return err
}

func TestGroupRecordsThatNoStateWroteAreRefused(t *testing.T) {
	group := func(n byte, change func(*fsmpb.GroupRecord)) *fsmpb.Record {
		g := &fsmpb.GroupRecord{GroupId: bytes.Repeat([]byte{n}, 16), Name: fmt.Sprint("group-", n), Phase: uint32(GroupReady)}
		change(g)
		return &fsmpb.Record{Kind: &fsmpb.Record_Group{Group: g}}
	}
	named := func(g *fsmpb.GroupRecord) { g.Name = "a" }
	operated := func(g *fsmpb.GroupRecord) {
		g.Operation = &fsmpb.OperationRecord{Id: 5, Kind: uint32(OpSnapshot), State: uint32(OpRunning)}
	}
	plain := func(*fsmpb.GroupRecord) {}
	require.ErrorContains(t, readRecords(t, group(1, named), group(2, operated)), "records hash to", "groups that may be")
	for name, records := range map[string][]*fsmpb.Record{
		"a group twice":          {group(1, plain), group(1, func(g *fsmpb.GroupRecord) { g.Name = "another" })},
		"a name twice":           {group(1, named), group(2, named)},
		"an operation twice":     {group(1, operated), group(2, operated)},
		"a member without an id": {group(1, plain), group(2, func(g *fsmpb.GroupRecord) { g.Members = [][]byte{nil} })},
	} {
		require.ErrorContains(t, readRecords(t, records...), "record 2 of 2", name)
	}
}

func TestAWriteThatFailsIsReported(t *testing.T) {
	w := newWorld(t)
	full := errors.New("no space left on device")
	require.ErrorIs(t, w.s.WriteDump(failing1{full}, 1), full)
	_, _, err := ReadDump(iotest.ErrReader(full))
	require.ErrorIs(t, err, full)
}

type failing1 struct{ err error }

func (f failing1) Write([]byte) (int, error) { return 0, f.err }

// FuzzReadDump: whatever is read, with a right checksum or not, is refused or is
// a state that can be written and checked for its hash; nothing panics.
func FuzzReadDump(f *testing.F) {
	w := newWorld(f)
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
	whole := dumpOf(f, w.s)
	f.Add(whole)
	f.Add(whole[:len(whole)-32])
	f.Add(dumpFile(f, &fsmpb.Header{Format: 1, Records: 1 << 60}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, file := range [][]byte{b, withChecksum(b)} {
			s, _, err := ReadDump(io.LimitReader(bytes.NewReader(file), 1<<20))
			if err != nil {
				continue
			}
			require.NoError(t, s.checkHash())
		}
	})
}
