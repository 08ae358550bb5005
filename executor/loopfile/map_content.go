package loopfile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"github.com/holdfast-storage/holdfast/executor"
)

const (
	compareStep  = 1 << 20
	compareBlock = 4096
)

// deltaByContent compares the bytes wherever one of the files holds data.
func deltaByContent(ctx context.Context, base, target *os.File, from, size int64, yield func(executor.Extent) bool) error {
	from -= from % compareBlock
	a, b := make([]byte, compareStep), make([]byte, compareStep)
	for at := from; at < size; {
		if err := checkInterrupted(ctx, at); err != nil {
			return err
		}
		start, err := firstData(base, target, at, size)
		if err != nil || start >= size {
			return err
		}
		at = start - start%compareBlock
		n := int(min(compareStep, size-at))
		if err := errors.Join(readZeroFilled(base, a[:n], at), readZeroFilled(target, b[:n], at)); err != nil {
			return err
		}
		if !yieldDifferences(a[:n], b[:n], at, yield) {
			return nil
		}
		at += int64(n)
	}
	return nil
}

// firstData is the first offset at or after at where one of the files holds data.
func firstData(a, b *os.File, at, size int64) (int64, error) {
	first := size
	for _, f := range []*os.File{a, b} {
		start, err := nextData(f, at)
		if err != nil {
			return 0, err
		}
		first = min(first, start)
	}
	return first, nil
}

func yieldDifferences(a, b []byte, at int64, yield func(executor.Extent) bool) bool {
	for i := 0; i < len(a); i += compareBlock {
		end := min(i+compareBlock, len(a))
		if !bytes.Equal(a[i:end], b[i:end]) && !yield(executor.Extent{Offset: at + int64(i), Length: int64(end - i)}) {
			return false
		}
	}
	return true
}

// readZeroFilled reads a range; bytes beyond the file's end are zero.
func readZeroFilled(f *os.File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		clear(b[n:])
		return nil
	}
	return err
}
