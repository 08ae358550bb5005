package blocks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

// most is how many missing blocks are named: the answer stays one line.
const most = 5

// Reader reads the blocks of a run.
type Reader struct {
	Run          certify.Run
	Path         string
	Places       uint64
	Acknowledged uint64 // the highest number that was
}

// Read reads what is there of the blocks that were acknowledged. In each place the last of them has to be, or a later one, which was
// written without having been acknowledged. What cannot be read is missing.
func (r *Reader) Read() (found certify.ReadBack, err error) {
	file, err := os.Open(r.Path)
	if err != nil {
		return found, fmt.Errorf("open the file of blocks: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	in := bufio.NewReaderSize(file, 256*certify.BlockSize)
	for place := range min(r.Places, r.Acknowledged) {
		number, err := r.one(in, place)
		if err != nil {
			found.Missing++
			if len(found.Says) < most {
				found.Says = append(found.Says, fmt.Sprintf("block %d: %v", r.last(place), err))
			}
			continue
		}
		found.Read, found.Highest = found.Read+1, max(found.Highest, number)
	}
	return found, nil
}

// one reads the block of the next place.
func (r *Reader) one(in io.Reader, place uint64) (uint64, error) {
	b := make([]byte, certify.BlockSize)
	if _, err := io.ReadFull(in, b); err != nil {
		return 0, fmt.Errorf("read it: %w", err)
	}
	number, err := decode(r.Run, b)
	switch {
	case err != nil:
		return 0, err
	case number == 0 || (number-1)%r.Places != place:
		return 0, fmt.Errorf("block %d is in its place", number)
	case number < r.last(place):
		return 0, fmt.Errorf("the older block %d is in its place", number)
	}
	return number, nil
}

// last is the number of the block that was acknowledged last in a place.
func (r *Reader) last(place uint64) uint64 {
	return r.Acknowledged - (r.Acknowledged-1-place)%r.Places
}
