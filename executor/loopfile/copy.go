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

// copyChunk is how many bytes are copied between two checks of the context.
const copyChunk = 8 << 20

// copySparse copies the data of a file's first size bytes, without its holes.
func copySparse(ctx context.Context, from, to *os.File, size int64, progress executor.Progress) error {
	if err := to.Truncate(size); err != nil {
		return err
	}
	segments, total, err := dataExtents(from, 0, size)
	if err != nil {
		return err
	}
	var copied int64
	for _, s := range segments {
		err := inChunks(ctx, s, func(step executor.Extent) error {
			if err := copyRange(from, to, step); err != nil {
				return err
			}
			if copied += step.Length; progress != nil {
				progress(copied, total)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func inChunks(ctx context.Context, e executor.Extent, fn func(executor.Extent) error) error {
	for e.Length > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		step := executor.Extent{Offset: e.Offset, Length: min(e.Length, copyChunk)}
		if err := fn(step); err != nil {
			return err
		}
		e.Offset, e.Length = e.Offset+step.Length, e.Length-step.Length
	}
	return nil
}

// dataExtents lists where a file holds data from an offset on, and returns the total in bytes.
func dataExtents(f *os.File, from, size int64) (segments []executor.Extent, total int64, err error) {
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

// nextData is the first offset at or after at where the file holds data; beyond any size if there
// is none.
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

// copyRange lets the kernel copy, or copies in user space where the kernel cannot.
func copyRange(from, to *os.File, e executor.Extent) error {
	in, out := e.Offset, e.Offset
	for end := e.Offset + e.Length; in < end; {
		n, err := unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), &out, int(end-in), 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case cannotClone(err):
			return copyInUserspace(from, to, executor.Extent{Offset: in, Length: end - in})
		case err != nil:
			return fmt.Errorf("copy %s: %w", from.Name(), err)
		case n == 0:
			return fmt.Errorf("copy %s: it ends at %d, before %d: %w", from.Name(), in, end, io.ErrUnexpectedEOF)
		}
	}
	return nil
}

func copyInUserspace(from, to *os.File, e executor.Extent) error {
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

// How measurements are made, and for how long they are used.
const (
	rateBytes = 32 << 20
	rateAge   = 10 * time.Minute
	rateName  = tmpDir + "/rate"
)

// abilities are the measured properties of the pool.
type abilities struct {
	mu            sync.Mutex
	sharingTested bool
	shares        bool
	copyRate      int64 // bytes a second
	measuredAt    time.Time
}

// SharesBlocks tries to share one block, and caches the result. An absent pool does not share, for
// now.
func (p *Pool) SharesBlocks() bool {
	p.abilities.mu.Lock()
	defer p.abilities.mu.Unlock()
	if !p.abilities.sharingTested {
		shares, err := p.testReflink()
		p.abilities.sharingTested, p.abilities.shares = err == nil, shares
	}
	return p.abilities.shares
}

func (p *Pool) testReflink() (bool, error) {
	var cloned error
	err := p.withUnnamedFiles(make([]byte, fsm.VolumeSizeUnit), func(from, to *os.File) error {
		cloned = unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
		if cannotClone(cloned) {
			return nil
		}
		return cloned
	})
	return cloned == nil, err
}

// CopyRate measures a synced copy within the pool, in bytes a second, and caches the result.
func (p *Pool) CopyRate(ctx context.Context) (int64, error) {
	p.abilities.mu.Lock()
	defer p.abilities.mu.Unlock()
	if p.abilities.copyRate > 0 && time.Since(p.abilities.measuredAt) < rateAge {
		return p.abilities.copyRate, nil
	}
	err := p.withUnnamedFiles(incompressible(rateBytes), func(from, to *os.File) error {
		start := time.Now()
		err := inChunks(ctx, executor.Extent{Length: rateBytes}, func(e executor.Extent) error { return copyInUserspace(from, to, e) })
		if err = errors.Join(err, to.Sync()); err != nil {
			return err
		}
		p.abilities.copyRate, p.abilities.measuredAt = int64(rateBytes/max(time.Since(start).Seconds(), 1e-6)), time.Now()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure how fast pool %s copies: %w", p.dir, err)
	}
	return p.abilities.copyRate, nil
}

// incompressible returns data that no filesystem stores as a hole or compresses.
func incompressible(size int) []byte {
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

// withUnnamedFiles calls do with two temporary files without a name, the first of them filled and
// synced.
func (p *Pool) withUnnamedFiles(content []byte, do func(from, to *os.File) error) error {
	root, err := p.open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	from, err := openUnnamed(root, rateName+".from")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := openUnnamed(root, rateName+".to")
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
	// A real copy reads data that was not just written: drop it from the page cache.
	_ = unix.Fadvise(int(from.Fd()), 0, 0, unix.FADV_DONTNEED)
	return do(from, to)
}

func openUnnamed(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return f, root.Remove(name)
}
