package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// highWaterMark stores the highest index that was durable and acknowledged. A log that ends below
// it lost entries, which a torn last write cannot cause.
//
// Raising it is one write without fsync, after the entries are durable: on disk it is then never
// above the log. Lowering it is synced before the entries are deleted. So a crash makes the mark
// weaker, never wrong.
type highWaterMark struct {
	f      *os.File
	dir    dataDir
	member string
}

const highWaterMarkSize = 16 // index, four zero bytes, CRC32C

// createHighWaterMark creates the mark of an empty log.
func createHighWaterMark(d dataDir, member string) error {
	return d.replaceFile(d.markPath(), encodeHighWaterMark(member, 0))
}

// openHighWaterMark returns the mark and the index that it holds. A damaged mark is not valid and
// holds no index: all that a mark can cause is a refusal.
func openHighWaterMark(d dataDir, member string) (m *highWaterMark, index uint64, valid bool, err error) {
	f, err := os.OpenFile(d.markPath(), os.O_RDWR, 0)
	if err != nil {
		return nil, 0, false, fmt.Errorf("open the log's mark: %w", err)
	}
	var buf [highWaterMarkSize]byte
	n, _ := f.ReadAt(buf[:], 0) // short or failed: damaged
	index = binary.LittleEndian.Uint64(buf[:])
	if n != highWaterMarkSize || string(buf[:]) != string(encodeHighWaterMark(member, index)) {
		return &highWaterMark{f, d, member}, 0, false, nil
	}
	return &highWaterMark{f, d, member}, index, true, nil
}

func encodeHighWaterMark(member string, index uint64) []byte {
	buf := make([]byte, highWaterMarkSize)
	binary.LittleEndian.PutUint64(buf, index)
	binary.LittleEndian.PutUint32(buf[12:], saltedChecksum(member, buf[:12]))
	return buf
}

// raise records that everything up to index is durable.
func (m *highWaterMark) raise(index uint64) error {
	if _, err := m.dir.writeAt(m.f, m.f.Name(), encodeHighWaterMark(m.member, index), 0); err != nil {
		return fmt.Errorf("raise the log's mark: %w", err)
	}
	return nil
}

// lower records that entries above index are about to be deleted.
func (m *highWaterMark) lower(index uint64) error {
	if err := m.raise(index); err != nil {
		return err
	}
	if err := m.sync(); err != nil {
		return fmt.Errorf("sync the log's mark: %w", err)
	}
	return nil
}

// close makes the mark durable at an orderly stop.
func (m *highWaterMark) close() error {
	return errors.Join(m.sync(), m.f.Close())
}

func (m *highWaterMark) sync() error {
	return m.dir.syncBy(m.f.Name(), func() error { return unix.Fdatasync(int(m.f.Fd())) })
}
