package loopfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// copyStep is how much is copied between two looks at the context.
const copyStep = 8 << 20

// copySparse copies the data of a file's first size bytes and leaves its holes out.
func copySparse(ctx context.Context, from, to *os.File, size int64, progress executor.Progress) error {
	if err := to.Truncate(size); err != nil {
		return err
	}
	segments, total, err := data(from, 0, size)
	if err != nil {
		return err
	}
	var done int64
	for _, s := range segments {
		err := eachStep(ctx, s, func(step executor.Extent) error {
			if err := copyRange(from, to, step); err != nil {
				return err
			}
			if done += step.Length; progress != nil {
				progress(done, total)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func eachStep(ctx context.Context, e executor.Extent, do func(executor.Extent) error) error {
	for e.Length > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		step := executor.Extent{Offset: e.Offset, Length: min(e.Length, copyStep)}
		if err := do(step); err != nil {
			return err
		}
		e.Offset, e.Length = e.Offset+step.Length, e.Length-step.Length
	}
	return nil
}

// data lists where a file holds data, from an offset on, and how many bytes.
func data(f *os.File, from, size int64) (segments []executor.Extent, total int64, err error) {
	for at := from; at < size; {
		start, err := nextData(f, at)
		if err != nil {
			return nil, 0, err
		}
		if start >= size {
			break
		}
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return nil, 0, fmt.Errorf("find the holes of %s: %w", f.Name(), err)
		}
		segments = append(segments, executor.Extent{Offset: start, Length: min(end, size) - start})
		total += min(end, size) - start
		at = end
	}
	return segments, total, nil
}

// nextData is the first offset from at on where the file holds data, or beyond any size.
func nextData(f *os.File, at int64) (int64, error) {
	start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return math.MaxInt64, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the data of %s: %w", f.Name(), err)
	}
	return start, nil
}

// copyRange lets the kernel copy, or does it by hand where the kernel does not.
func copyRange(from, to *os.File, e executor.Extent) error {
	in, out := e.Offset, e.Offset
	for end := e.Offset + e.Length; in < end; {
		n, err := unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), &out, int(end-in), 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case cannotClone(err):
			return copyByHand(from, to, executor.Extent{Offset: in, Length: end - in})
		case err != nil:
			return fmt.Errorf("copy %s: %w", from.Name(), err)
		case n == 0:
			return fmt.Errorf("copy %s: it ends at %d, before %d: %w", from.Name(), in, end, io.ErrUnexpectedEOF)
		}
	}
	return nil
}

func copyByHand(from, to *os.File, e executor.Extent) error {
	section := io.NewSectionReader(from, e.Offset, e.Length)
	n, err := io.Copy(io.NewOffsetWriter(to, e.Offset), section)
	if err == nil && n != e.Length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", from.Name(), err)
	}
	return nil
}

// What is measured once, and for how long it is believed.
const (
	rateBytes = 32 << 20
	rateAge   = 10 * time.Minute
	rateName  = tmpDir + "/rate"
)

// ability is what the pool was found able to do.
type ability struct {
	mu     sync.Mutex
	asked  bool
	shares bool
	rate   int64 // bytes a second
	at     time.Time
}

// SharesBlocks tries to share one block. An absent pool does not share, for now.
func (p *Pool) SharesBlocks() bool {
	p.able.mu.Lock()
	defer p.able.mu.Unlock()
	if !p.able.asked {
		shares, err := p.trySharing()
		p.able.asked, p.able.shares = err == nil, shares
	}
	return p.able.shares
}

func (p *Pool) trySharing() (bool, error) {
	var cloned error
	err := p.withTwoFiles(make([]byte, fsm.VolumeSizeUnit), func(from, to *os.File) error {
		cloned = unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
		if cannotClone(cloned) {
			return nil
		}
		return cloned
	})
	return cloned == nil, err
}

// CopyRate copies a file within the pool, synced, and remembers how fast that was.
func (p *Pool) CopyRate(ctx context.Context) (int64, error) {
	p.able.mu.Lock()
	defer p.able.mu.Unlock()
	if p.able.rate > 0 && time.Since(p.able.at) < rateAge {
		return p.able.rate, nil
	}
	err := p.withTwoFiles(filler(rateBytes), func(from, to *os.File) error {
		began := time.Now()
		err := eachStep(ctx, executor.Extent{Length: rateBytes}, func(e executor.Extent) error { return copyByHand(from, to, e) })
		if err = errors.Join(err, to.Sync()); err != nil {
			return err
		}
		p.able.rate, p.able.at = int64(rateBytes/max(time.Since(began).Seconds(), 1e-6)), time.Now()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure how fast pool %s copies: %w", p.dir, err)
	}
	return p.able.rate, nil
}

// filler is data that no filesystem takes for a hole or makes small.
func filler(size int) []byte {
	b := make([]byte, size)
	state := uint64(0x9E3779B97F4A7C15)
	for i := range b {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		b[i] = byte(state)
	}
	return b
}

// withTwoFiles gives two files without a lasting name, the first of them filled and synced.
func (p *Pool) withTwoFiles(content []byte, do func(from, to *os.File) error) error {
	root, err := p.open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	from, err := nameless(root, rateName+".from")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := nameless(root, rateName+".to")
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := from.Write(content); err != nil {
		return err
	}
	if err := from.Sync(); err != nil {
		return err
	}
	// What is copied for real was not just written: it is read from the disk.
	_ = unix.Fadvise(int(from.Fd()), 0, 0, unix.FADV_DONTNEED)
	return do(from, to)
}

func nameless(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return f, root.Remove(name)
}
