package records

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

const (
	slotSize   = 1 << 20 // most of it is a hole
	slotHeader = 24
	slotMagic  = "HFSLOT1\n"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SlotFile is a small file that is replaced as a whole: two slots, written in turn, each with
// a counter and a checksum. A crash in the middle of a write leaves the other slot valid. A
// write costs one fdatasync, a fifth of what a new file and a rename cost. The file is open
// only while it is read or written, since there may be many.
type SlotFile struct {
	path    string
	exists  bool
	counter uint64
	// nextSlot is the slot to write: never the one that holds what was synced last.
	nextSlot int64
	// maybeUnsynced: the content that was read may not be on stable storage.
	maybeUnsynced bool
}

// openSlotFile reads the file's content, nil when no slot is valid. The first write creates
// the file.
func openSlotFile(path string) (*SlotFile, []byte, error) {
	s := &SlotFile{path: path}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open the record %s: %w", path, err)
	}
	defer f.Close()
	if err := checkSlots(f); err != nil {
		return nil, nil, err
	}
	s.exists, s.maybeUnsynced = true, true
	var content []byte
	for i := range int64(2) {
		counter, payload, ok := readSlot(f, i*slotSize)
		if ok && counter > s.counter {
			s.counter, content, s.nextSlot = counter, payload, 1-i
		}
	}
	return s, content, nil
}

func readSlot(f *os.File, at int64) (counter uint64, payload []byte, ok bool) {
	var header [slotHeader]byte
	if _, err := f.ReadAt(header[:], at); err != nil || !bytes.Equal(header[:8], []byte(slotMagic)) {
		return 0, nil, false
	}
	counter = binary.LittleEndian.Uint64(header[8:])
	length := binary.LittleEndian.Uint32(header[16:])
	if length > slotSize-slotHeader {
		return 0, nil, false
	}
	payload = make([]byte, length)
	if _, err := f.ReadAt(payload, at+slotHeader); err != nil {
		return 0, nil, false
	}
	return counter, payload, binary.LittleEndian.Uint32(header[20:]) == slotSum(header[8:20], payload)
}

func slotSum(header, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, payload)
}

// write replaces the content. With sync it is on stable storage when write returns; without,
// a crash of the host may bring back the content before.
func (s *SlotFile) write(payload []byte, sync bool) error {
	if len(payload) > slotSize-slotHeader {
		return fmt.Errorf("write the record %s: %d bytes are too many", s.path, len(payload))
	}
	sync = sync && !plantedbug.Is(plantedbug.RecordUnsynced)
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("open the record %s: %w", s.path, err)
	}
	if s.maybeUnsynced {
		err = unix.Fdatasync(int(f.Fd()))
	}
	if err == nil {
		err = s.writeSlot(f, payload)
	}
	if err == nil && sync {
		err = unix.Fdatasync(int(f.Fd()))
	}
	err = errors.Join(err, f.Close())
	if err == nil && sync && !s.exists {
		err = durablefile.SyncDir(filepath.Dir(s.path))
	}
	if err != nil {
		return fmt.Errorf("write the record %s: %w", s.path, err)
	}
	s.exists, s.maybeUnsynced = s.exists || sync, false
	s.counter++
	if sync {
		s.nextSlot = 1 - s.nextSlot
	}
	return nil
}

// writeSlot writes one slot.
func (s *SlotFile) writeSlot(f *os.File, payload []byte) error {
	buf := make([]byte, slotHeader+len(payload))
	copy(buf, slotMagic)
	binary.LittleEndian.PutUint64(buf[8:], s.counter+1)
	binary.LittleEndian.PutUint32(buf[16:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(buf[20:], slotSum(buf[8:20], payload))
	copy(buf[slotHeader:], payload)
	_, err := f.WriteAt(buf, s.nextSlot*slotSize)
	return err
}

// Remove deletes the file.
func (s *SlotFile) Remove() error {
	*s = SlotFile{path: s.path}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the record %s: %w", s.path, err)
	}
	return nil
}
