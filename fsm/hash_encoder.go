package fsm

import "encoding/binary"

// encoder writes records in the one form that is hashed; what each entity is hashed as
// stands beside its type, and so does how a dump has it. Numbers are varints,
// texts and lists carry their length, so no two records have the same bytes. A field
// of a level above 1 stands at its record's end and only where it is set, which
// happens at that level only: a record of level 1 hashes as it always did (S23, S72).
// The buffer is used again.
type encoder struct{ b []byte }

// The first byte of a record says which table it is in.
const (
	kindCluster byte = iota + 1
	kindNode
	kindVolume
	kindAnswer
	kindSnapshot
	kindGroup
	kindFence
	kindVolumeGroup byte = 60
	kindRevocation  byte = 125
	kindJoinToken   byte = 126
)

func (e *encoder) begin(kind byte) { e.b = append(e.b[:0], kind) }

func (e *encoder) sum() sum256 { return sumOf(e.b) }

func (e *encoder) u64(v uint64) { e.b = binary.AppendUvarint(e.b, v) }

func (e *encoder) i64(v int64) { e.b = binary.AppendVarint(e.b, v) }

func (e *encoder) bool(v bool) {
	var b byte
	if v {
		b = 1
	}
	e.b = append(e.b, b)
}

func (e *encoder) str(v string) {
	e.u64(uint64(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) bytes(v []byte) {
	e.u64(uint64(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) epoch(v Epoch) {
	e.u64(v.Incarnation)
	e.u64(v.Index)
}
