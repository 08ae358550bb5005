package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// entryChecksumSize is how many bytes an entry's checksum takes at the end of Log.Extensions
// (S22): magic and CRC32C. It is added when an entry is stored and removed when it is read, so
// neither Raft nor the other members ever see it.
const entryChecksumSize = 8

var entryChecksumMagic = [4]byte{'H', 'F', 'c', '1'}

var errEntryChecksum = errors.New("the checksum of the entry does not match")

// entryChecksums computes and verifies the checksums of one member's entries. The member's id is
// part of each, so entries of another member's log do not match.
type entryChecksums struct{ salt uint32 }

func newEntryChecksums(member string) entryChecksums {
	return entryChecksums{salt: crc32.Checksum([]byte(member), castagnoli)}
}

// add returns a copy of an entry with its checksum; the caller's is not changed.
func (s entryChecksums) add(l *raft.Log) *raft.Log {
	out := *l
	ext := make([]byte, len(l.Extensions)+entryChecksumSize)
	n := copy(ext, l.Extensions)
	copy(ext[n:], entryChecksumMagic[:])
	binary.LittleEndian.PutUint32(ext[n+4:], s.sum(l))
	out.Extensions = ext
	return &out
}

// verify checks an entry that was read at index and removes its checksum.
func (s entryChecksums) verify(index uint64, l *raft.Log) error {
	n := len(l.Extensions) - entryChecksumSize
	if n < 0 || [4]byte(l.Extensions[n:n+4]) != entryChecksumMagic {
		return errEntryChecksum
	}
	want := binary.LittleEndian.Uint32(l.Extensions[n+4:])
	if l.Extensions = l.Extensions[:n]; n == 0 {
		l.Extensions = nil
	}
	if l.Index != index || s.sum(l) != want {
		return errEntryChecksum
	}
	return nil
}

// sum covers every field that Raft acts on. AppendedAt is left out: it is only informative, and
// the stores do not keep it exactly.
func (s entryChecksums) sum(l *raft.Log) uint32 {
	var head [8 + 8 + 1 + 8]byte
	binary.LittleEndian.PutUint64(head[0:], l.Index)
	binary.LittleEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	binary.LittleEndian.PutUint64(head[17:], uint64(len(l.Data)))
	sum := crc32.Update(s.salt, castagnoli, head[:])
	sum = crc32.Update(sum, castagnoli, l.Data)
	return crc32.Update(sum, castagnoli, l.Extensions)
}
