package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newFilledJournal returns a closed journal of several segments with many blocks.
func newFilledJournal(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = fastDir(t)
	j := open(t, dir, 4<<10, 1<<30)
	for i := uint64(1); i <= 2000; i += 20 {
		appendEvenEntries(t, j, i, i+19)
		require.NoError(t, j.Sync(i+19))
	}
	require.NoError(t, j.Close())
	names, err := filepath.Glob(filepath.Join(dir, "*.hfj"))
	require.NoError(t, err)
	require.Greater(t, len(names), 3)
	return dir, names
}

// Whatever happens to a segment, every entry that is yielded is right, and all others are in a gap.
func TestS26_DamageBecomesAGap(t *testing.T) {
	source, names := newFilledJournal(t)
	for name, damage := range map[string]func(r *rand.Rand, data []byte) []byte{
		"a flipped bit": func(r *rand.Rand, data []byte) []byte {
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
			return data
		},
		"a sector of noise": func(r *rand.Rand, data []byte) []byte {
			at := r.IntN(len(data)) &^ 511
			for i := at; i < min(at+512, len(data)); i++ {
				data[i] = byte(r.Uint32())
			}
			return data
		},
		"a cut":            func(r *rand.Rand, data []byte) []byte { return data[:r.IntN(len(data))] },
		"a missing middle": func(r *rand.Rand, data []byte) []byte { n := r.IntN(len(data)); return append(data[:n/2], data[n:]...) },
		"nothing left":     func(*rand.Rand, []byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			rounds := 60
			if testing.Short() {
				rounds = 10
			}
			for range rounds {
				dir, file := fastDir(t), names[r.IntN(len(names))]
				copyDir(t, source, dir)
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), damage(r, bytes.Clone(data)), 0o600))
				requireIndexOrGap(t, dir)
			}
		})
	}
	t.Run("a missing segment", func(t *testing.T) {
		dir := fastDir(t)
		copyDir(t, source, dir)
		require.NoError(t, os.Remove(filepath.Join(dir, filepath.Base(names[1]))))
		requireIndexOrGap(t, dir)
	})
}

// requireIndexOrGap expects each index to be told or to be in a gap, then has the
// member go on and expects the same again.
func requireIndexOrGap(t *testing.T, dir string) {
	t.Helper()
	for round := range uint64(2) {
		j := open(t, dir, 4<<10, 1<<30)
		require.NoError(t, j.Restored(1990))
		appendEvenEntries(t, j, 1991, 2010+10*round)
		first := j.First()
		got, next := map[uint64]bool{}, first
		require.NoError(t, j.Range(first, 0, func(e Entry) bool {
			for ; next < e.Index; next++ {
				if next%2 == 0 {
					t.Fatalf("index %d is neither told nor in a gap", next)
				}
			}
			if next = e.Index + 1; e.Gap {
				require.NotEmpty(t, e.Reason)
				next = e.GapTo + 1
				return true
			}
			requireSame(t, e)
			got[e.Index] = true
			return true
		}))
		for i := uint64(2002); i <= 2010+10*round; i += 2 {
			require.True(t, got[i], "what is appended after the damage is told: %d", i)
		}
		require.NoError(t, j.Close())
	}
}

func TestDamageIsReportedWithItsSegment(t *testing.T) {
	dir, names := newFilledJournal(t)
	data, err := os.ReadFile(names[1])
	require.NoError(t, err)
	data[blockHeaderSize+5] ^= 1
	require.NoError(t, os.WriteFile(names[1], data, 0o600))
	var why string
	require.NoError(t, open(t, dir, 0, 0).Range(1, 0, func(e Entry) bool { why += e.Reason; return true }))
	require.Contains(t, why, filepath.Base(names[1]))
}

func TestATornTailIsTruncated(t *testing.T) {
	source, names := newFilledJournal(t)
	last := names[len(names)-1]
	data, err := os.ReadFile(last)
	require.NoError(t, err)
	for cut := 1; cut < len(data); cut += 29 {
		dir := fastDir(t)
		copyDir(t, source, dir)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(last)), data[:len(data)-cut], 0o600))
		j := open(t, dir, 4<<10, 1<<30)
		to := j.Last()
		require.Less(t, to, uint64(2000))
		requireRange(t, j, 1, to)
		appendEvenEntries(t, j, to+1, 2100) // applied again
		requireRange(t, j, 1, 2100)
		require.NoError(t, j.Close())
	}
}

// faultyFilesystem fails on cue.
type faultyFilesystem struct {
	osFilesystem
	mu                         sync.Mutex
	openErr, writeErr, syncErr error
	short                      bool          // a failing write writes half
	block, hung                chan struct{} // a write hangs until block is closed; hangs says that one does
}

func (d *faultyFilesystem) setFault(fn func()) { d.mu.Lock(); defer d.mu.Unlock(); fn() }

func (d *faultyFilesystem) open(path string) (segmentFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openErr != nil {
		return nil, d.openErr
	}
	f, err := d.osFilesystem.open(path)
	return faultyFile{f, d}, err
}

type faultyFile struct {
	segmentFile
	fs *faultyFilesystem
}

func (f faultyFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	err, short, block, hangs := f.fs.writeErr, f.fs.short, f.fs.block, f.fs.hung
	f.fs.mu.Unlock()
	if block != nil {
		select {
		case hangs <- struct{}{}:
		default:
		}
		<-block
	}
	if err != nil {
		if short {
			_, _ = f.segmentFile.WriteAt(p[:len(p)/2], off)
		}
		return 0, err
	}
	return f.segmentFile.WriteAt(p, off)
}

func (f faultyFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return errors.Join(f.fs.syncErr, f.segmentFile.Sync())
}

func openWith(t *testing.T, dir string, d *faultyFilesystem) *Journal {
	t.Helper()
	j, err := start(Options{Dir: dir, SegmentBytes: 8 << 10, RetainBytes: 1 << 30}, d)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestS26_AFullDiskLeavesAGapAndAppendContinues(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	for name, fail := range map[string]func(d *faultyFilesystem){
		"no write succeeds":      func(d *faultyFilesystem) { d.writeErr = full },
		"writes are cut":         func(d *faultyFilesystem) { d.writeErr, d.short = full, true },
		"no segment can be made": func(d *faultyFilesystem) { d.openErr, d.writeErr = full, full },
		"fsync fails":            func(d *faultyFilesystem) { d.syncErr = syscall.EIO },
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := fastDir(t), &faultyFilesystem{}
			j := openWith(t, dir, d)
			step := func(from, to uint64) {
				appendEvenEntries(t, j, from, to)
				require.NoError(t, j.Sync(to))
			}
			step(1, 100)
			d.setFault(func() { fail(d) })
			for i := uint64(101); i < 400; i += 100 {
				step(i, i+99)
				got, gaps := readRange(t, j, 1, 0)
				require.Equal(t, evenIndexes(1, 100), got)
				require.Len(t, gaps, 1, "the gap is told while the disk is full too")
			}
			d.setFault(func() { d.openErr, d.writeErr, d.syncErr = nil, nil, nil })
			step(401, 500)
			for range 2 {
				got, gaps := readRange(t, j, 1, 0)
				require.Equal(t, append(evenIndexes(1, 100), evenIndexes(401, 500)...), got)
				require.Equal(t, []string{"101-400"}, gaps)
				require.NoError(t, j.Append(entry(200)), "in the gap, nothing to compare with")
				require.ErrorIs(t, j.Append(Entry{Index: 450}), ErrConflict)
				require.NoError(t, j.Close())
				j = open(t, dir, 8<<10, 1<<30)
			}
		})
	}
}

// While the disk is full no file has the gap, and its reader learns all the same what to do.
func TestS26_AGapSaysThatTheDiskIsFull(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "/of/c1", Err: syscall.ENOSPC}
	for name, tc := range map[string]struct {
		written uint64
		fail    func(d *faultyFilesystem)
		says    []string
		not     string
	}{
		"full":              {50, func(d *faultyFilesystem) { d.writeErr = full }, []string{"its disk is full", "/of/c1", "no space left"}, "damaged"},
		"a quota":           {50, func(d *faultyFilesystem) { d.openErr, d.writeErr = syscall.EDQUOT, syscall.EDQUOT }, []string{"its disk is full"}, "damaged"},
		"from the start":    {0, func(d *faultyFilesystem) { d.openErr = full }, []string{"its disk is full", "/of/c1"}, "damaged"},
		"of another reason": {50, func(d *faultyFilesystem) { d.writeErr = syscall.EIO }, []string{"could not be written: input/output error"}, "full"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &faultyFilesystem{}
			j := openWith(t, fastDir(t), d)
			if tc.written > 0 {
				appendEvenEntries(t, j, 1, tc.written)
				require.NoError(t, j.Sync(tc.written))
			}
			d.setFault(func() { tc.fail(d) })
			appendEvenEntries(t, j, tc.written+1, 100)
			for range 2 {
				require.NoError(t, j.Sync(100))
				var gaps []Entry
				require.NoError(t, j.Range(1, 0, func(e Entry) bool {
					if e.Gap {
						gaps = append(gaps, e)
					}
					return true
				}))
				require.Len(t, gaps, 1)
				require.Equal(t, []uint64{tc.written + 1, 100}, []uint64{gaps[0].Index, gaps[0].GapTo})
				for _, text := range tc.says {
					require.Contains(t, gaps[0].Reason, text)
				}
				require.NotContains(t, gaps[0].Reason, tc.not)
			}
		})
	}
}

func TestADiskThatWasFullFromTheStartIsAGap(t *testing.T) {
	d := &faultyFilesystem{openErr: syscall.ENOSPC}
	j := openWith(t, fastDir(t), d)
	appendEvenEntries(t, j, 1, 50)
	require.NoError(t, j.Sync(50))
	_, gaps := readRange(t, j, 1, 0)
	require.Equal(t, []string{"1-50"}, gaps)
	d.setFault(func() { d.openErr = nil })
	appendEvenEntries(t, j, 51, 60)
	got, gaps := readRange(t, j, 1, 0)
	require.Equal(t, evenIndexes(51, 60), got)
	require.Equal(t, []string{"1-50"}, gaps)
}

func TestAHungDiskDoesNotBlockAppend(t *testing.T) {
	d := &faultyFilesystem{block: make(chan struct{}), hung: make(chan struct{}, 1)}
	j := openWith(t, fastDir(t), d)
	big := bytes.Repeat([]byte("x"), 8<<10)
	last := uint64(maxQueuedBlocks * 3 * blockBytes / len(big))
	for i := uint64(1); i <= last; i++ {
		require.NoError(t, j.Append(Entry{Index: i, Term: 1, Command: big}))
		if i*uint64(len(big)) == blockBytes {
			<-d.hung // the writer took the first block, and no other from now on
		}
	}
	close(d.block)
	next, gaps := uint64(1), 0
	require.NoError(t, j.Range(1, 0, func(e Entry) bool {
		require.Equal(t, next, e.Index)
		next = e.Index + 1
		if e.Gap {
			next, gaps = e.GapTo+1, gaps+1
			require.Contains(t, e.Reason, "did not keep up")
		}
		return true
	}))
	require.Equal(t, last+1, next)
	require.Equal(t, 1, gaps)
}

// Readers that wait for a disk that hangs are not what the disk falls behind with.
func TestReadersOfAHungDiskLoseNothing(t *testing.T) {
	d := &faultyFilesystem{block: make(chan struct{}), hung: make(chan struct{}, 1)}
	j := openWith(t, fastDir(t), d)
	big := bytes.Repeat([]byte("x"), blockBytes)
	require.NoError(t, j.Append(Entry{Index: 1, Term: 1, Command: big}))
	<-d.hung
	readers := make(chan error)
	for range maxQueuedBlocks + 1 {
		go func() { readers <- j.Sync(0) }()
	}
	require.Eventually(t, func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return len(j.queue) > maxQueuedBlocks
	}, time.Minute, time.Millisecond)
	for i := uint64(2); i <= 4; i++ {
		require.NoError(t, j.Append(Entry{Index: i, Term: 1, Command: big}))
	}
	close(d.block)
	for range maxQueuedBlocks + 1 {
		require.NoError(t, <-readers)
	}
	require.NoError(t, j.Range(1, 0, func(e Entry) bool { return assert.False(t, e.Gap, e.Reason) }))
}
