package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// hostFormat is the format of the data folder that this build reads and writes. A build that keeps records which this one must not
// lose gives its folders a higher one.
const hostFormat = 1

// ErrNewer: a newer build wrote what was read. The files are whole: that build, or a newer one, goes on with them.
var ErrNewer = errors.New("it was written by a newer build: start that build, or a newer one, on this data folder")

// laterSlot begins slots of later formats, of which the digit is the number. Another byte there is damage.
var laterSlot = regexp.MustCompile(`^HFSLOT[2-9]\n`)

// checkFormats refuses a data folder of a newer build. It reads only: nothing has been written when it refuses (S72).
func checkFormats(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, hostFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the host's identity: %w", err)
	}
	var r hostRecord
	if json.Unmarshal(text, &r) == nil && r.Format > hostFormat { // what cannot be read is refused later, as damaged
		return fmt.Errorf("the data folder %s has format %d, this build knows %d: %w", dir, r.Format, hostFormat, ErrNewer)
	}
	return errors.Join(checkRecords(dir), checkRecords(filepath.Join(dir, volumesDir)))
}

// checkRecords looks at the records in a folder.
func checkRecords(folder string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*"+recordSuffix))
	if err != nil {
		return fmt.Errorf("list the records in %s: %w", folder, err)
	}
	for _, name := range names {
		if err := checkRecord(name); err != nil {
			return err
		}
	}
	return nil
}

func checkRecord(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("open the record: %w", err)
	}
	defer f.Close()
	return checkSlots(f)
}

// checkSlots refuses a file with a slot of another format: to this build it would be a record that was never written.
func checkSlots(f *os.File) error {
	for i := range int64(2) {
		var magic [len(slotMagic)]byte
		if _, err := f.ReadAt(magic[:], i*slotSize); err != nil {
			continue // it is shorter, or the slot's own reader says why it cannot be read
		}
		if laterSlot.Match(magic[:]) {
			return fmt.Errorf("the record %s is of the format %q, this build knows %q: %w", f.Name(), magic, slotMagic, ErrNewer)
		}
	}
	return nil
}
