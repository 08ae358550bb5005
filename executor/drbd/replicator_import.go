package drbd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

var _ executor.MetadataImporter = (*Replicator)(nil)

// maxDumpBytes is how large a dump of metadata may be, in bytes. Equal words of a bitmap are one line of it.
const maxDumpBytes = 64 << 20

// noForeignMetadata is in drbdmeta's error message when it finds no metadata of the format.
const noForeignMetadata = "No valid meta data found"

// uncleanMetadata is in drbdmeta's error message when the activity log is to be applied first. DRBD 8.4 leaves it so at
// each `down`, and its tools apply it before they attach the disk.
const uncleanMetadata = "unclean"

// ForeignMetadata reads the metadata of a resource of others with `drbdmeta dump-md`, without a minor: they are looked
// for at the device's end only. The tool refuses a device that is open, and metadata whose activity log is to be applied.
func (r *Replicator) ForeignMetadata(ctx context.Context, path string) (*fsmpb.DrbdMetadata, []byte, error) {
	for _, format := range []string{"v08", "v09"} {
		dump := &limitedBuffer{left: maxDumpBytes}
		_, err := r.config.runner.Run(ctx, run.Command{Tool: "drbdmeta", Args: []string{"-", format, path, "internal", "dump-md"}, Timeout: queryTimeout, Stdout: dump})
		var failed *run.Error
		switch {
		case errors.As(err, &failed) && strings.Contains(failed.Output, noForeignMetadata):
			continue
		case errors.As(err, &failed) && strings.Contains(failed.Output, uncleanMetadata):
			return nil, nil, fsm.Reject(fsm.Precondition, "the activity log on %s was not applied: run `drbdadm apply-al RESOURCE` on this host after `drbdadm down RESOURCE`, which marks what it names", path)
		case err != nil:
			return nil, nil, fmt.Errorf("read DRBD's metadata on %s: %w", path, err)
		}
		if format == "v09" {
			m, err := parseDump(dump.Bytes())
			return m, dump.Bytes(), err
		}
		return r.withFlags(ctx, path, dump.Bytes())
	}
	return nil, nil, nil
}

// withFlags gives a dump of format v08 the flags of the metadata, which are 0 in it whatever they are: restored from it as
// it is, a disk would be inconsistent.
func (r *Replicator) withFlags(ctx context.Context, path string, dump []byte) (*fsmpb.DrbdMetadata, []byte, error) {
	out, err := r.config.runner.Run(ctx, run.Command{Tool: "drbdmeta", Args: []string{"-", "v08", path, "internal", "get-gi"}, Timeout: queryTimeout})
	if err != nil {
		return nil, nil, fmt.Errorf("read the flags of DRBD's metadata on %s: %w", path, err)
	}
	if dump, err = setFlags(dump, string(out)); err != nil {
		return nil, nil, fmt.Errorf("read the flags of DRBD's metadata on %s: %w", path, err)
	}
	m, err := parseDump(dump)
	return m, dump, err
}

// limitedBuffer refuses what is longer than it may be.
type limitedBuffer struct {
	bytes.Buffer
	left int
}

func (b *limitedBuffer) Write(text []byte) (int, error) {
	if b.left -= len(text); b.left < 0 {
		return 0, errors.New("the dump is too large")
	}
	return b.Buffer.Write(text)
}

// ReplicatedBytes is the size in bytes of the device that DRBD makes above a backing device of so many bytes. It is
// refused where the kernel would forget marks above it; see bitmapWordBytes.
func (*Replicator) ReplicatedBytes(backing int64) (size int64, refusal string) {
	size = backingCapacity(backing)
	switch device := deviceBytes(backing); {
	case size <= 0:
		return 0, "it is too small for DRBD's metadata"
	case device%bitmapWordBytes == 0:
		return size, fmt.Sprintf("DRBD 8.4 forgets what is out of sync at the end of a device of this size: extend both replicas to %d bytes with `lvextend`, and run `drbdadm resize`, while they are the DRBD resource's", marksKept(backing))
	}
	return size, ""
}

// marksKept is the next size of a backing device, in steps of the usual extent, above which the kernel forgets no marks.
func marksKept(backing int64) int64 {
	const extent = 4 << 20
	for backing = (backing/extent + 1) * extent; deviceBytes(backing)%bitmapWordBytes == 0; backing += extent {
	}
	return backing
}

// zeroStep is how many bytes are zeroed by one call.
const zeroStep = 16 << 20

// ClearBehind overwrites a device from an offset to its end with zeroes, synced. It is refused while anything else has
// the device open for itself, as DRBD and a mounted filesystem have.
func (*Replicator) ClearBehind(ctx context.Context, path string, from int64) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return fmt.Errorf("overwrite the end of %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := f.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("overwrite the end of %s: read its size: %w", path, err)
	}
	if from <= 0 || from > end || from%sectorBytes != 0 {
		return fmt.Errorf("overwrite the end of %s: %d is no place in its %d bytes", path, from, end)
	}
	for at := from; at < end && err == nil; at += zeroStep {
		if err = ctx.Err(); err == nil {
			err = zeroRange(f, at, min(zeroStep, end-at))
		}
	}
	if err = errors.Join(err, f.Sync()); err != nil {
		return fmt.Errorf("overwrite the end of %s: %w", path, err)
	}
	return nil
}

// zeroRange has the kernel write zeroes, or writes them where a device's driver cannot.
func zeroRange(f *os.File, at, length int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, at, length)
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	_, err = f.WriteAt(make([]byte, length), at)
	return err
}
