package fsm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

const (
	// dumpMagic begins every dump.
	dumpMagic = "holdfst\n"
	// dumpFormat is what this build writes and the only one it reads.
	dumpFormat = 1
	// maxRecordBytes bounds what a damaged length can make a reader allocate.
	maxRecordBytes = 16 << 20
)

// DumpHeader is how a dump, the content of a Raft snapshot, begins.
type DumpHeader struct {
	ClusterID    string
	Index        uint64 // of the state, not of the Raft snapshot (S24)
	Term         uint64
	FeatureLevel uint32
}

// WriteDump writes header, sorted length-delimited records and a sha256 trailer.
// It reads the state only: call it on a Fork while Apply continues.
func (s *State) WriteDump(w io.Writer, term uint64) error {
	out := &dumpWriter{w: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
	out.raw([]byte(dumpMagic))
	d := collectDictionary(s)
	stateHash := s.Hash()
	out.message(&fsmpb.Header{
		Format: dumpFormat, ClusterId: s.cluster.ID, Index: s.cluster.Index, Term: term, FeatureLevel: s.cluster.FeatureLevel,
		StateHash: stateHash[:],
		Records:   uint64(len(d.sorted) + len(d.sets) + 1 + s.nodes.Len() + s.volumes.Len() + s.answers.Len() + s.snapshots.byID.Len() + s.snapshots.groups.Len() + s.volumeGroups.byID.Len() + s.fences.Len() + s.revocations.Len() + s.joinTokens.Len()),
	})
	out.records(s, d)
	out.raw(out.sum.Sum(nil))
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return fmt.Errorf("write the snapshot of index %d: %w", s.cluster.Index, out.err)
	}
	return nil
}

// dumpWriter keeps the first error, and the sum of what it wrote.
type dumpWriter struct {
	w   *bufio.Writer
	sum hash.Hash
	buf []byte
	err error
}

func (o *dumpWriter) raw(b []byte) {
	if o.err != nil {
		return
	}
	o.sum.Write(b)
	_, o.err = o.w.Write(b)
}

func (o *dumpWriter) message(m proto.Message) {
	if o.err != nil {
		return
	}
	const room = binary.MaxVarintLen32
	if cap(o.buf) < room {
		o.buf = make([]byte, room, 4096)
	}
	var err error
	o.buf, err = proto.MarshalOptions{}.MarshalAppend(o.buf[:room], m)
	if err != nil {
		o.err = err
		return
	}
	var prefix [room]byte
	size := len(o.buf) - room
	if size > maxRecordBytes {
		o.err = fmt.Errorf("a record has %d bytes, more than %d", size, maxRecordBytes)
		return
	}
	n := binary.PutUvarint(prefix[:], uint64(size))
	copy(o.buf[room-n:], prefix[:n])
	o.raw(o.buf[room-n:])
}

func (o *dumpWriter) records(s *State, d *dictionary) {
	for _, text := range d.sorted {
		o.message(&fsmpb.Record{Kind: &fsmpb.Record_Text{Text: &fsmpb.Text{Value: []byte(text)}}})
	}
	for _, set := range d.sets {
		o.message(&fsmpb.Record{Kind: &fsmpb.Record_Requisite{Requisite: d.set(set)}})
	}
	o.message(&fsmpb.Record{Kind: &fsmpb.Record_Cluster{Cluster: clusterRecord(&s.cluster)}})
	for n := range s.Nodes() {
		o.message(&fsmpb.Record{Kind: &fsmpb.Record_Node{Node: nodeRecord(n)}})
	}
	volumes := volumeRecordWriter{d: d}
	record := &fsmpb.Record{Kind: &fsmpb.Record_Volume{Volume: &volumes.r}}
	for v := range s.storedVolumes() {
		volumes.fill(v)
		o.message(record)
	}
	var a fsmpb.AnswerRecord
	record = &fsmpb.Record{Kind: &fsmpb.Record_Answer{Answer: &a}}
	s.answers.Scan(func(_ uint64, known *answer) bool {
		d.answer(&a, known)
		o.message(record)
		return o.err == nil
	})
	for n := range s.storedSnapshots() {
		o.message(&fsmpb.Record{Kind: &fsmpb.Record_Snapshot{Snapshot: snapshotRecord(n)}})
	}
	for g := range s.storedGroups() {
		if plantedbug.Is(plantedbug.DumpWithoutTable) {
			break
		}
		o.message(&fsmpb.Record{Kind: &fsmpb.Record_Group{Group: groupRecord(g)}})
	}
	for f := range s.Fences() {
		o.message(&fsmpb.Record{Kind: &fsmpb.Record_Fence{Fence: fenceRecord(f)}})
	}
	for g := range s.VolumeGroups("") {
		o.message(&fsmpb.Record{Kind: &fsmpb.Record_VolumeGroup{VolumeGroup: volumeGroupRecord(g)}})
	}
	for r := range s.Revocations() {
		o.message(&fsmpb.Record{Kind: &fsmpb.Record_Revocation{Revocation: r.record()}})
	}
	for t := range s.JoinTokens() {
		o.message(&fsmpb.Record{Kind: &fsmpb.Record_JoinToken{JoinToken: t.record()}})
	}
}

// ReadDump decodes and verifies a whole dump before it returns a state.
// The error says what is wrong with it.
func ReadDump(r io.Reader) (*State, DumpHeader, error) {
	in := &dumpReader{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	header, err := in.header()
	if err != nil {
		return nil, DumpHeader{}, fmt.Errorf("read the snapshot's header: %w", err)
	}
	known := DumpHeader{ClusterID: header.GetClusterId(), Index: header.GetIndex(), Term: header.GetTerm(), FeatureLevel: header.GetFeatureLevel()}
	s, err := in.state(header)
	if err != nil {
		return nil, known, fmt.Errorf("read the snapshot of index %d: %w", header.GetIndex(), err)
	}
	return s, known, nil
}

// CheckDump reads the beginning of a dump, and returns ErrNewer for one that this build does not understand. Whether the rest can be read
// is not known then.
func CheckDump(r io.Reader) error {
	in := &dumpReader{r: bufio.NewReaderSize(r, 4<<10), sum: sha256.New()}
	if _, err := in.header(); errors.Is(err, ErrNewer) {
		return fmt.Errorf("read the snapshot's header: %w", err)
	}
	return nil
}

// dumpReader sums what it read.
type dumpReader struct {
	r      *bufio.Reader
	sum    hash.Hash
	prefix [binary.MaxVarintLen64]byte
	buf    []byte // of the last message
}

func (in *dumpReader) header() (*fsmpb.Header, error) {
	magic := make([]byte, len(dumpMagic))
	if _, err := io.ReadFull(in.r, magic); err != nil {
		return nil, truncatedErr(err)
	}
	if string(magic) != dumpMagic {
		return nil, errors.New("it does not begin as a snapshot of Holdfast does")
	}
	in.sum.Write(magic)
	h := &fsmpb.Header{}
	if err := in.message(h); err != nil {
		return nil, err
	}
	if h.GetFormat() > dumpFormat {
		return nil, fmt.Errorf("%w: its format is %d, this build reads %d only", ErrNewer, h.GetFormat(), dumpFormat)
	}
	if h.GetFormat() != dumpFormat {
		return nil, fmt.Errorf("its format is %d, this build reads %d only", h.GetFormat(), dumpFormat)
	}
	if h.GetFeatureLevel() > MaxFeatureLevel {
		return nil, fmt.Errorf("%w: its feature level is %d, this build understands %d at most", ErrNewer, h.GetFeatureLevel(), MaxFeatureLevel)
	}
	return h, nil
}

// message reads one length-delimited message into m.
func (in *dumpReader) message(m proto.Message) error {
	if err := in.next(); err != nil {
		return err
	}
	return proto.Unmarshal(in.buf, m)
}

// record reads one record into rec. The messages of volumes and answers, of which there are
// many, are reused; an empty one of these kinds is malformed.
func (in *dumpReader) record(rec *fsmpb.Record) error {
	if err := in.next(); err != nil {
		return err
	}
	switch last := rec.GetKind().(type) {
	case *fsmpb.Record_Volume:
		last.Volume.Reset()
	case *fsmpb.Record_Answer:
		last.Answer.Reset()
	default:
		rec.Reset()
	}
	return proto.UnmarshalOptions{Merge: true, DiscardUnknown: true}.Unmarshal(in.buf, rec)
}

// next reads the bytes of one message.
func (in *dumpReader) next() error {
	size, err := in.length()
	if err != nil {
		return err
	}
	if uint64(cap(in.buf)) < size {
		in.buf = make([]byte, size)
	}
	in.buf = in.buf[:size]
	if _, err := io.ReadFull(in.r, in.buf); err != nil {
		return truncatedErr(err)
	}
	in.sum.Write(in.buf)
	return nil
}

func (in *dumpReader) length() (uint64, error) {
	size, err := binary.ReadUvarint(in.r)
	if err != nil {
		return 0, truncatedErr(err)
	}
	if size > maxRecordBytes {
		return 0, fmt.Errorf("a record of %d bytes is announced, more than %d", size, maxRecordBytes)
	}
	in.sum.Write(in.prefix[:binary.PutUvarint(in.prefix[:], size)])
	return size, nil
}

// state reads the records, then verifies them against the header and the trailer.
func (in *dumpReader) state(h *fsmpb.Header) (*State, error) {
	x, rec := &dumpDecoder{s: New()}, &fsmpb.Record{}
	for n := range h.GetRecords() {
		if err := in.record(rec); err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", n+1, h.GetRecords(), err)
		}
		if err := x.add(rec); err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", n+1, h.GetRecords(), err)
		}
	}
	if err := in.trailer(); err != nil {
		return nil, err
	}
	c := &x.s.cluster
	if c.ID != h.GetClusterId() || c.Index != h.GetIndex() || c.FeatureLevel != h.GetFeatureLevel() {
		return nil, errors.New("its header names another cluster, index or feature level than its records")
	}
	if got := x.s.Hash(); !bytes.Equal(got[:], h.GetStateHash()) {
		return nil, fmt.Errorf("its records hash to %x, the state that wrote it had %x", got, h.GetStateHash())
	}
	return x.s, nil
}

func (in *dumpReader) trailer() error {
	want := in.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in.r, got); err != nil {
		return fmt.Errorf("its checksum: %w", truncatedErr(err))
	}
	if !bytes.Equal(got, want) {
		return errors.New("its checksum is wrong: the file is damaged")
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its checksum")
	}
	return nil
}

// truncatedErr explains an early end of the file; other errors stay as they are.
func truncatedErr(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early: the file is truncated")
	}
	return err
}
