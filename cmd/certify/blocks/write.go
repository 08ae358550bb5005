package blocks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

// Writer writes blocks of a run.
type Writer struct {
	Run    certify.Run
	Path   string        // of the file, which is made
	Places uint64        // that the file has
	Pause  time.Duration // between two blocks
	Every  time.Duration // between two lines of what is acknowledged

	file *os.File
	said certify.Acknowledged
	at   time.Time // of the newest acknowledgement
}

// Write writes until ctx ends, and says meanwhile, a line of JSON each, up to which number all blocks are durable: what it said is never
// taken back. The error is of a block that could not be written.
func (w *Writer) Write(ctx context.Context, out io.Writer) (err error) {
	if w.file, err = create(w.Path); err != nil {
		return fmt.Errorf("make the file of blocks: %w", err)
	}
	defer func() { err = errors.Join(err, w.file.Close()) }()
	for next := time.Now(); ; {
		if err := w.one(); err != nil {
			return fmt.Errorf("write block %d: %w", w.said.Number+1, err)
		}
		if now := time.Now(); !now.Before(next) && ctx.Err() == nil {
			next = now.Add(w.Every)
			if err := w.say(out); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(w.Pause):
		}
		if ctx.Err() != nil {
			return w.say(out)
		}
	}
}

func (w *Writer) say(out io.Writer) error {
	if err := json.NewEncoder(out).Encode(w.said); err != nil {
		return fmt.Errorf("acknowledge block %d: %w", w.said.Number, err)
	}
	return nil
}

// one writes the next block, and notes it once it is durable.
func (w *Writer) one() error {
	number := w.said.Number + 1
	place := int64((number - 1) % w.Places)
	if _, err := w.file.WriteAt(encode(w.Run, number), place*certify.BlockSize); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	now := time.Now()
	if pause := now.Sub(w.at); !w.at.IsZero() && pause > w.said.Longest {
		w.said.Longest, w.said.LongestAfter = pause, w.said.Number
	}
	w.said.Number, w.at = number, now
	return nil
}

// create makes a file whose name is durable. One that is there is another writer's.
func create(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
